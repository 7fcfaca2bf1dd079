package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"sallyport.dev/sallyport"
)

// period of cpu bandwidth control: the kernel's default, 100 ms.
const period = 100_000 // µs

// setting is one control file and what it must say afterwards.
type setting struct {
	file  string
	value string
	// reads tells whether the file's content means that the value is in force; nil: it must be equal.
	reads func(content string) bool
	// optional: its absence makes the layer weaker, with these words.
	optional string
}

// limit sets all limits and reports on cpu, memory and pids, in that order.
func (g *Group) limit(l sallyport.Limits, problems map[string]string, fix string) []sallyport.LayerReport {
	var out []sallyport.LayerReport
	for _, k := range []struct {
		layer      sallyport.Layer
		controller string
	}{{sallyport.LayerCPU, cpu}, {sallyport.LayerMemory, memory}, {sallyport.LayerPIDs, pids}} {
		r := sallyport.LayerReport{Layer: k.layer, Status: sallyport.LayerNotHeld, Grade: sallyport.GradeObservation}
		p, ok := g.find(k.controller)
		switch {
		case k.controller == cpu && l.CPU == 0:
			r.Status, r.Proof = sallyport.LayerNotRequired, "no cpu limit was asked for"
		case !ok:
			r.Proof, r.Fix = "cgroup: "+problems[k.controller], fix
		default:
			p.apply(settingsFor(k.controller, p.v2, l), &r)
			if r.Status == sallyport.LayerNotHeld {
				r.Fix = fix
			}
		}
		out = append(out, r)
	}
	return out
}

// settingsFor lists what a controller is told. Pure.
func settingsFor(controller string, v2 bool, l sallyport.Limits) []setting {
	switch {
	case controller == pids:
		return []setting{{file: "pids.max", value: strconv.FormatInt(l.PIDs, 10)}}
	case controller == cpu && v2:
		return []setting{{file: "cpu.max", value: fmt.Sprintf("%d %d", quota(l.CPU), period)}}
	case controller == cpu:
		return []setting{
			{file: "cpu.cfs_period_us", value: strconv.Itoa(period)},
			{file: "cpu.cfs_quota_us", value: strconv.FormatInt(quota(l.CPU), 10)},
		}
	case v2:
		return []setting{
			{file: "memory.max", value: strconv.FormatInt(l.Memory, 10), reads: pages(l.Memory)},
			{file: "memory.swap.max", value: "0", optional: "swap is not counted by this kernel"},
		}
	default:
		return []setting{
			{file: "memory.limit_in_bytes", value: strconv.FormatInt(l.Memory, 10), reads: pages(l.Memory)},
			// memsw counts memory and swap together: the same number leaves no swap.
			{file: "memory.memsw.limit_in_bytes", value: strconv.FormatInt(l.Memory, 10), reads: pages(l.Memory), optional: "swap is not counted by this kernel"},
		}
	}
}

// quota in µs for each period; the kernel takes no less than 1 ms.
func quota(cpus float64) int64 { return max(1000, int64(cpus*period)) }

// pages: the kernel rounds to whole pages.
func pages(want int64) func(string) bool {
	return func(content string) bool {
		got, err := strconv.ParseInt(content, 10, 64)
		return err == nil && got > 0 && got <= want && want-got < int64(os.Getpagesize())
	}
}

// apply writes the settings and believes only what it reads back.
func (p part) apply(list []setting, r *sallyport.LayerReport) {
	// v1 refuses a memory limit above memsw, and a memsw below the limit: which must come first depends on what
	// was there. Twice through settles both.
	for range 2 {
		for _, s := range list {
			write(filepath.Join(p.dir, s.file), s.value)
		}
	}
	var seen []string
	for _, s := range list {
		content := readFile(filepath.Join(p.dir, s.file))
		ok := content == s.value
		if s.reads != nil {
			ok = s.reads(content)
		}
		switch {
		case ok:
			seen = append(seen, s.file+"="+strings.ReplaceAll(content, " ", "/"))
		case content == "" && s.optional != "":
			r.Weaker = s.optional
		default:
			r.Proof = fmt.Sprintf("%s/%s: wrote %s, reads %q", p.dir, s.file, s.value, content)
			return
		}
	}
	if len(seen) == 0 {
		r.Proof = p.dir + ": no control file took the limit"
		return
	}
	r.Status = sallyport.LayerHeld
	r.Proof = "cgroup " + version(p.v2) + " " + p.path(p.dir) + ": " + strings.Join(seen, ", ") + " read back"
}

func version(v2 bool) string {
	if v2 {
		return "v2"
	}
	return "v1"
}
