package qemu

import (
	"os/exec"
	"testing"
	"time"
)

// BenchmarkStart measures the time until the CPUs run, and until a kernel of a few bytes has printed
// one; beside it the same command line without anything of ours, to the same byte.
func BenchmarkStart(b *testing.B) {
	host := needQEMU(b)
	kernel := tinyKernel(b, "x", thenHalt)
	b.Run("backend", func(b *testing.B) {
		backend := newBackend(b)
		var running, printed time.Duration
		for b.Loop() {
			spec := tinySpec(b, kernel)
			begin := time.Now()
			m, err := backend.Start(b.Context(), spec)
			if err != nil {
				b.Fatal(err)
			}
			running += time.Since(begin)
			if _, err := m.Serial().Read(make([]byte, 1)); err != nil {
				b.Fatal(err)
			}
			printed += time.Since(begin)
			kill(b, m)
		}
		b.ReportMetric(float64(running.Microseconds())/1e3/float64(b.N), "ms/running")
		b.ReportMetric(float64(printed.Microseconds())/1e3/float64(b.N), "ms/printed")
	})
	b.Run("bare", func(b *testing.B) {
		var printed time.Duration
		for b.Loop() {
			spec := tinySpec(b, kernel)
			args := append(baseArgs(host, spec.Accelerator, 1, spec.Workspace.MemoryMiB), "-serial", "stdio")
			cmd := exec.Command(host.Binary, append(args, bootArgs(kernel, "", "")...)...)
			out, err := cmd.StdoutPipe()
			if err != nil {
				b.Fatal(err)
			}
			begin := time.Now()
			if err := cmd.Start(); err != nil {
				b.Fatal(err)
			}
			if _, err := out.Read(make([]byte, 1)); err != nil {
				b.Fatal(err)
			}
			printed += time.Since(begin)
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		b.ReportMetric(float64(printed.Microseconds())/1e3/float64(b.N), "ms/printed")
	})
}
