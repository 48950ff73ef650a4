package printable

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"
)

func TestLine(t *testing.T) {
	for in, want := range map[string]string{
		"": "",
		"plain, größe, 日本語, 👩‍💻 ✈️":            "plain, größe, 日本語, 👩‍💻 ✈️",
		"web\x1b[2J\x1b]0;pwned\x07\r\x9b31mX": `web\x1b[2J\x1b]0;pwned\x07\r\x9b31mX`,
		"a\nb\tc":                              `a\nb\tc`,
		"c1 \u009b31m \u0085":                  `c1 \x9b31m \x85`,
		"del \x7f nul \x00":                    `del \x7f nul \x00`,
		"\u202egpj.exe":                        `\u202egpj.exe`,
		"line\u2028para\u2029":                 `line\u2028para\u2029`,
		"\xff\xfe cut \xe6\x97":                `\xff\xfe cut \xe6\x97`,
		"replacement \ufffd":                   "replacement \ufffd",
	} {
		if got := Line(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestText(t *testing.T) {
	if got, want := Text("a\r\nb\n\tc\rd\x1b"), "a\nb\n\tc\\rd\\x1b"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestWriter: however a stream is cut, it comes out as in one piece.
func TestWriter(t *testing.T) {
	in := "größe 日本語 👩‍💻\r\nnext\x1b[2J \xff\xe6\x97 \u009b\r\r\nend\r"
	var out bytes.Buffer
	w := NewWriter(&out)
	r := iotest.OneByteReader(strings.NewReader(in))
	buf := make([]byte, 1)
	for {
		n, err := r.Read(buf)
		if _, werr := w.Write(buf[:n]); werr != nil {
			t.Fatal(werr)
		}
		if err != nil {
			break
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if out.String() != Text(in) {
		t.Errorf("in pieces %q, whole %q", out.String(), Text(in))
	}
}

func FuzzLine(f *testing.F) {
	f.Add("web\x1b[2J\x1b]0;pwned\x07\r\x9b31mX")
	f.Add("\u202e\xe6\x97\u2028")
	f.Fuzz(func(t *testing.T, s string) {
		got := Line(s)
		if !utf8.ValidString(got) {
			t.Errorf("%q: not UTF-8: %q", s, got)
		}
		for _, r := range got {
			if r < 0x20 || r >= 0x7f && r < 0xa0 || r == 0x2028 || r >= 0x202a && r <= 0x202e {
				t.Errorf("%q: %U is left in %q", s, r, got)
			}
		}
		if Line(got) != got {
			t.Errorf("%q: twice is not once: %q", s, got)
		}
	})
}

// FuzzJSON: the escaped form is safe, and says the same.
func FuzzJSON(f *testing.F) {
	f.Add("\u009b31m\x7f\u202e\x1b")
	f.Fuzz(func(t *testing.T, s string) {
		data, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		safe := JSON(data)
		if Line(string(safe)) != string(safe) {
			t.Errorf("%q: unsafe: %q", s, safe)
		}
		var was, is string
		if json.Unmarshal(data, &was) != nil || json.Unmarshal(safe, &is) != nil || was != is {
			t.Errorf("%q became %q", was, is)
		}
	})
}
