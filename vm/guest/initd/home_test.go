package initd

import "testing"

func TestFreshHome(t *testing.T) {
	skel := []string{".bashrc", ".profile", ".config"}
	for _, c := range []struct {
		name string
		home []string
		want bool
	}{
		{"empty", nil, true},
		{"as mke2fs leaves it", []string{"lost+found"}, true},
		{"cut short", []string{"lost+found", ".bashrc", ".bromure-new-.profile"}, true},
		{"a file of the user's", []string{"lost+found", ".bashrc", "thesis.tex"}, false},
		{"history only", []string{".bash_history"}, false},
		{"the bare prefix", []string{tempPrefix}, false},
	} {
		if got := freshHome(c.home, skel); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
