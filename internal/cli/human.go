package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// age says how long something takes or is ago, in one word and one unit, as Docker does.
func age(d time.Duration) string {
	unit := func(n int, one string) string {
		if n == 1 {
			return "1 " + one
		}
		return fmt.Sprintf("%d %ss", n, one)
	}
	hours := int(math.Round(d.Hours()))
	switch {
	case d < time.Second:
		return "less than a second"
	case d < time.Minute:
		return unit(int(d.Seconds()), "second")
	case d < 2*time.Minute:
		return "about a minute"
	case d < time.Hour:
		return unit(int(d.Minutes()), "minute")
	case hours == 1:
		return "about an hour"
	case hours < 48:
		return unit(hours, "hour")
	case hours < 24*7*2:
		return unit(hours/24, "day")
	case hours < 24*60:
		return unit(hours/24/7, "week")
	case hours < 24*365*2:
		return unit(hours/24/30, "month")
	}
	return unit(hours/24/365, "year")
}

func ago(now, t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return age(max(0, now.Sub(t))) + " ago"
}

// took is a duration with the digits that matter.
func took(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
}

// size is a number of bytes in binary units.
func size(n int64) string {
	const k = 1024
	if n < k {
		return fmt.Sprintf("%d B", n)
	}
	f := float64(n)
	for _, unit := range []string{"KiB", "MiB", "GiB"} {
		if f /= k; f < k {
			return number(f) + " " + unit
		}
	}
	return number(f/k) + " TiB"
}

// number has one digit after the point, if it is worth one.
func number(f float64) string {
	if f >= 99.95 {
		return strconv.FormatFloat(f, 'f', 0, 64)
	}
	return strings.TrimSuffix(strconv.FormatFloat(f, 'f', 1, 64), ".0")
}

// parseSize reads "4", "0.5", "512M" or "2GiB" as MiB; a number alone is in GB of 1024 MiB.
func parseSize(s string) (int64, error) {
	const most = 1 << 40 // MiB; keeps the product in range
	bad := fmt.Errorf("not a size: %q", s)
	t := strings.ToLower(s)
	digits := strings.TrimRight(t, "abcdefghijklmnopqrstuvwxyz")
	var factor float64
	switch t[len(digits):] {
	case "m", "mb", "mib":
		factor = 1
	case "", "g", "gb", "gib":
		factor = 1024
	case "t", "tb", "tib":
		factor = 1024 * 1024
	default:
		return 0, bad
	}
	if digits == "" || strings.Trim(digits, "0123456789.") != "" {
		return 0, bad
	}
	f, err := strconv.ParseFloat(digits, 64)
	mib := math.Round(f * factor)
	if err != nil || mib < 1 || mib > most {
		return 0, bad
	}
	return int64(mib), nil
}
