package vm

import "testing"

func TestMACCheck(t *testing.T) {
	for _, good := range []MAC{"02:00:00:00:00:00", "02:ab:cd:ef:01:23", "fe:ff:ff:ff:ff:ff", NewMAC(), NewMAC()} {
		if err := good.Check(); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for name, bad := range map[string]MAC{
		"empty":                    "",
		"too short":                "02:00:00:00:00",
		"too long":                 "02:00:00:00:00:00:00",
		"much too long":            "02:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00",
		"upper case":               "02:AB:CD:EF:01:23",
		"dashes":                   "02-00-00-00-00-00",
		"no separators":            "020000000000",
		"digits only":              "02000000000000000",
		"separators elsewhere":     "0:200:00:00:00:00",
		"not hex":                  "02:00:00:00:00:0g",
		"of a vendor":              "00:16:3e:00:00:00",
		"multicast":                "03:00:00:00:00:00",
		"multicast, not local":     "01:00:5e:00:00:01",
		"longer, a prefix is good": "02:00:00:00:00:00,mac=x",
		"digits left over":         "02:00:00:00:00:00:0",
	} {
		if bad.Check() == nil {
			t.Errorf("%s: %q passes", name, bad)
		}
	}
}

func TestNewMACsDiffer(t *testing.T) {
	if a, b := NewMAC(), NewMAC(); a == b {
		t.Errorf("two draws of 40 random bits gave %s", a)
	}
}
