package main

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		v    []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 9, 2}, 3}} {
		if got := median(tt.v); got != tt.want {
			t.Errorf("median(%v) = %v, want %v", tt.v, got, tt.want)
		}
	}
}

func TestAlternateInterleavesAndDropsTheFirst(t *testing.T) {
	var order string
	next := 0.0
	side := func(name string) sample {
		return func(context.Context) (float64, error) {
			order += name
			next++
			return next, nil
		}
	}
	f := figure{name: "f", unit: milliseconds}
	if err := f.alternate(t.Context(), 3, side("o"), side("r")); err != nil {
		t.Fatal(err)
	}
	if order != "orroorro" {
		t.Errorf("order %s", order)
	}
	if len(f.ours) != 3 || len(f.ref) != 3 || f.ours[0] < 3 || f.ref[0] < 3 {
		t.Errorf("ours %v, reference %v", f.ours, f.ref)
	}
	boom := errors.New("boom")
	err := f.alternate(t.Context(), 1, func(context.Context) (float64, error) { return 0, boom }, nil)
	if !errors.Is(err, boom) {
		t.Errorf("error %v", err)
	}
}

func TestLineSaysWhetherTheAimWasMet(t *testing.T) {
	for _, tt := range []struct {
		f    figure
		want []string
	}{
		{figure{name: "start", unit: milliseconds, ours: []float64{130}, against: "bare QEMU", ref: []float64{100}, aim: aim{ratio: 1.4}},
			[]string{"130.0 ms", "bare QEMU 100.0 ms", "ratio 1.30", "aim ≤ ratio 1.40: met"}},
		{figure{name: "start", unit: milliseconds, ours: []float64{150}, against: "bare QEMU", ref: []float64{100}, aim: aim{ratio: 1.4}},
			[]string{"aim ≤ ratio 1.40: MISSED"}},
		{figure{name: "rss", unit: megabytes, ours: []float64{41, 39, 40}, aim: aim{value: 40}},
			[]string{"40.0 MB (39–41)", "aim ≤ 40.0 MB: met"}},
		{figure{name: "down", unit: throughput, ours: []float64{90}, against: "slirp", ref: []float64{100}, aim: aim{ratio: 1}},
			[]string{"aim ≥ ratio 1.00: MISSED"}},
	} {
		for _, want := range tt.want {
			if got := tt.f.line(); !strings.Contains(got, want) {
				t.Errorf("no %q in %q", want, got)
			}
		}
	}
}
