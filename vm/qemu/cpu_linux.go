package qemu

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// hostCPU is what /proc/cpuinfo says of the first processor.
type hostCPU struct {
	model   string
	virtual bool // it can run guests
}

// cpuInfoLines bounds what is read of /proc/cpuinfo: the first processor's part has under 40 lines.
const cpuInfoLines = 200

func (p procfs) cpu(arch string) (hostCPU, error) {
	f, err := os.Open(p.path("cpuinfo"))
	if err != nil {
		return hostCPU{}, err
	}
	defer f.Close()
	c := hostCPU{virtual: arch != "amd64"} // others do not say
	var ident []string
	lines := bufio.NewScanner(f)
	for i := 0; i < cpuInfoLines && lines.Scan(); i++ {
		key, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimSpace(value)
		switch key = strings.TrimSpace(key); key {
		case "model name", "cpu family", "model", "stepping", "microcode",
			"CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision":
			ident = append(ident, value)
		case "flags":
			for _, f := range strings.Fields(value) {
				c.virtual = c.virtual || f == "vmx" || f == "svm"
			}
		case "":
			i = cpuInfoLines // the second processor is like the first
		}
	}
	c.model = strings.Join(ident, " ")
	if err := lines.Err(); err != nil {
		return hostCPU{}, fmt.Errorf("read cpuinfo: %w", err)
	}
	return c, nil
}
