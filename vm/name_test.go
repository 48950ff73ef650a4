package vm

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestParseName(t *testing.T) {
	long := strings.Repeat("ä", MaxNameRunes)
	for in, want := range map[string]string{
		"web":                                   "web",
		"Web server 2":                          "Web server 2",
		"Zwölf Boxkämpfer":                      "Zwölf Boxkämpfer",
		"Cafe\u0301":                            "Caf\u00e9", // NFC
		"\u1112\u1161\u11ab":                    "\ud55c",    // conjoining jamo
		"名前":                                    "名前",
		"שלום":                                  "שלום", // right to left by nature, without controls
		"👩‍🚀 lab":                               "👩‍🚀 lab",
		"❤️":                                    "❤️",
		"con":                                   "con", // a name is a label, so nothing is reserved
		"nul.txt":                               "nul.txt",
		"a\\b":                                  "a\\b",
		"...":                                   "...",
		"~root":                                 "~root",
		"$(reboot)":                             "$(reboot)",
		"a:b*c?":                                "a:b*c?",
		strings.Repeat("0", 31):                 strings.Repeat("0", 31),
		strings.Repeat("A", 32):                 strings.Repeat("A", 32), // an ID has lower-case digits
		long:                                    long,
		strings.Repeat("e\u0301", MaxNameRunes): strings.Repeat("\u00e9", MaxNameRunes), // counted after normalisation
	} {
		if got, err := ParseName(in); err != nil || string(got) != want {
			t.Errorf("ParseName(%+q) = %+q, %v, want %+q", in, got, err, want)
		}
	}
	for _, in := range []string{
		"", ".", "..", "/", "a/b", "../canary", "/tmp/canary", "-", "-rf", "--help",
		" a", "a ", "\u00a0a", "a\u3000", " ", "\t",
		"a\x00b", "a\nb", "a\rb", "a\tb", "a\x1bb", "a\x7fb", "a\u0080b", "a\u009bb", "a\u0085b",
		"web\x1b[2J\x1b]0;pwned\x07\r\x9b31mX",
		"a\u2028b", "a\u2029b",
		"a\u202eb", "a\u202ab", "a\u2066b", "a\u2069b", "a\u200eb", "a\u200fb", "a\u061cb",
		"\xff", "a\xc3", "\xed\xa0\x80", // not UTF-8: a stray byte, half a character, a surrogate
		"\u200b", "\u200d", "\ufe0f", "\ufeff", "\u2060\u200b", "\u3164", "\u2800", "\u0301", // nothing to see
		strings.Repeat("0", 32), strings.Repeat("0123abcd", 4),
		long + "ä", strings.Repeat("a", 300), strings.Repeat("a", 1<<20),
	} {
		got, err := ParseName(in)
		if err == nil {
			t.Errorf("ParseName(%.60q) = %q", in, got)
			continue
		}
		if strings.ContainsFunc(err.Error(), func(r rune) bool { return badNameRune(r) != "" && r != '/' }) {
			t.Errorf("the message for %.60q would act on a terminal: %q", in, err)
		}
	}
}

func TestNameKey(t *testing.T) {
	for _, same := range [][]Name{
		{"web", "WEB", "Web"},
		{"caf\u00e9", "cafe\u0301", "CAF\u00c9", "CAFE\u0301"},
		{"stra\u00dfe", "STRASSE", "strasse"},
		{"\u03c3\u03c2", "\u03a3\u03a3"}, // the two small sigmas
		{"\u212b", "\u00e5", "A\u030a"},  // ångström sign
		{"\u1fb3", "\u03b1\u03b9"},       // folds to two letters
	} {
		for _, n := range same {
			if n.Key() != same[0].Key() {
				t.Errorf("%+q and %+q have different keys: %+q, %+q", n, same[0], n.Key(), same[0].Key())
			}
		}
	}
	for _, two := range [][2]Name{{"web", "web2"}, {"cafe", "caf\u00e9"}, {"a b", "ab"}, {"i", "\u0131"}} {
		if two[0].Key() == two[1].Key() {
			t.Errorf("%+q and %+q are the same name", two[0], two[1])
		}
	}
}

func FuzzParseName(f *testing.F) {
	for _, s := range []string{"web", "Cafe\u0301", "a/b", "\x1b[2J", "\u202e", "-x", "👩‍🚀", "\u1fb3\u0345", "İ"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseName(s)
		if err != nil {
			if n != "" {
				t.Errorf("ParseName(%q) = %q with %v", s, n, err)
			}
			return
		}
		if again, err := ParseName(string(n)); err != nil || again != n {
			t.Errorf("ParseName is not idempotent: %q → %q → %q, %v", s, n, again, err)
		}
		if !utf8.ValidString(string(n)) || strings.ContainsAny(string(n), "/\x00\x1b\n\r") || n[0] == '-' {
			t.Errorf("ParseName(%q) = %q", s, n)
		}
		if k := n.Key(); Name(k).Key() != k {
			t.Errorf("Key is not idempotent: %+q → %+q → %+q", n, k, Name(k).Key())
		}
		if n.Key() != Name(s).Key() {
			t.Errorf("%+q and its normal form %+q have different keys", s, n)
		}
	})
}
