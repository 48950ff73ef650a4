package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// figure is one measured thing: ours, what it is compared with, and what was aimed at.
type figure struct {
	name    string
	unit    unit
	ours    []float64
	against string // what the reference is; empty: there is none
	ref     []float64
	aim     aim
}

// unit says how values are written, and which direction is good.
type unit struct {
	format string
	more   bool // more is better
}

var (
	milliseconds = unit{format: "%.1f ms"}
	microseconds = unit{format: "%.0f µs"}
	megabytes    = unit{format: "%.1f MB"}
	throughput   = unit{format: "%.0f MB/s", more: true}
)

// aim is a promise about a figure: a limit for the value itself or for its ratio to the reference.
type aim struct {
	value float64 // 0: none
	ratio float64 // 0: none
}

// line is a figure for people: value, reference, ratio and whether the aim was met.
func (f *figure) line() string {
	s := fmt.Sprintf("%-44s %12s", f.name, f.spread(f.ours))
	if f.against != "" {
		s += fmt.Sprintf("   %s %s, ratio %.2f", f.against, f.spread(f.ref), f.ratio())
	}
	if limit, ok := f.met(); limit != "" {
		verdict := "met"
		if !ok {
			verdict = "MISSED"
		}
		s += fmt.Sprintf("   aim %s: %s", limit, verdict)
	}
	return s
}

// spread is the median, and the range where there is more than one run.
func (f *figure) spread(v []float64) string {
	if len(v) == 0 {
		return "-"
	}
	s := fmt.Sprintf(f.unit.format, median(v))
	if len(v) > 1 {
		s += fmt.Sprintf(" (%.4g–%.4g)", slices.Min(v), slices.Max(v))
	}
	return s
}

func (f *figure) ratio() float64 { return median(f.ours) / median(f.ref) }

// met describes the aim and says whether it was reached; an empty limit means that there is none.
func (f *figure) met() (limit string, ok bool) {
	value, bound, format := median(f.ours), f.aim.value, f.unit.format
	if f.aim.ratio != 0 {
		value, bound, format = f.ratio(), f.aim.ratio, "ratio %.2f"
	}
	switch {
	case bound == 0 || len(f.ours) == 0:
		return "", true
	case f.unit.more:
		return "≥ " + fmt.Sprintf(format, bound), value >= bound
	}
	return "≤ " + fmt.Sprintf(format, bound), value <= bound
}

// median of an even count is the mean of the two in the middle. It is 0 for none.
func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	n := len(s)
	switch {
	case n == 0:
		return 0
	case n%2 == 1:
		return s[n/2]
	}
	return (s[n/2-1] + s[n/2]) / 2
}

// sample takes one value of one side.
type sample func(context.Context) (float64, error)

// alternate takes n values of each side, by turns, and which side begins changes each time: what slows
// the host for a while slows both. A first run of each is thrown away, since it finds cold caches.
func (f *figure) alternate(ctx context.Context, n int, ours, ref sample) error {
	for i := -1; i < n; i++ {
		sides := []func() error{
			func() error { return collect(ctx, &f.ours, ours, i) },
			func() error { return collect(ctx, &f.ref, ref, i) },
		}
		if i%2 == 0 {
			slices.Reverse(sides)
		}
		for _, side := range sides {
			if err := side(); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
		}
	}
	return nil
}

func collect(ctx context.Context, into *[]float64, s sample, round int) error {
	if s == nil {
		return nil
	}
	v, err := s(ctx)
	if err != nil {
		return err
	}
	if round >= 0 {
		*into = append(*into, v)
	}
	return nil
}

// timed makes a sample, in milliseconds, of what f does.
func timed(f func(context.Context) error) sample {
	return func(ctx context.Context) (float64, error) {
		start := time.Now()
		err := f(ctx)
		return float64(time.Since(start)) / float64(time.Millisecond), err
	}
}
