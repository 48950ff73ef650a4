package initd

import "fmt"

// task is a function that runs in the background.
type task struct {
	done chan struct{} // closed at its end
	err  error
}

// begin starts f.
func begin(f func() error) *task {
	t := &task{done: make(chan struct{})}
	go func() {
		defer close(t.done)
		t.err = guard(f)
	}()
	return t
}

// wait returns what f returned, when it has.
func (t *task) wait() error {
	<-t.done
	return t.err
}

// guard turns a panic into an error: when process 1 dies, the kernel panics and nobody learns why.
func guard(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("a bug in bromure-guest: %v", r)
		}
	}()
	return f()
}
