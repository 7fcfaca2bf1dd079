package manifest

import (
	"fmt"
	"math"
	"time"

	"sallyport.dev/sallyport"
)

// Default limits: what a run gets when nobody says anything.
const (
	DefaultTime   = 2 * time.Hour
	DefaultMemory = int64(8) << 30
	DefaultPIDs   = int64(4096)
	DefaultDisk   = int64(20) << 30
	DefaultOutput = int64(256) << 20
)

// limitField lets the six limits be compared by one piece of code. Values are float64, which holds every
// admitted limit exactly; +Inf is "no limit".
type limitField struct {
	name string
	std  float64
	said func(sallyport.LimitsProposal) (float64, bool)
	set  func(*sallyport.Limits, float64)
	show func(float64) string
	good func(float64) bool
	want string
}

var limitFields = []limitField{
	{"time", float64(DefaultTime), func(l sallyport.LimitsProposal) (float64, bool) { return number(l.Time) },
		func(l *sallyport.Limits, v float64) { l.Time = time.Duration(v) }, showTime,
		func(v float64) bool { return v >= float64(time.Second) && v <= float64(maxDuration) }, wantDuration},
	{"memory", float64(DefaultMemory), func(l sallyport.LimitsProposal) (float64, bool) { return number(l.Memory) },
		func(l *sallyport.Limits, v float64) { l.Memory = int64(v) }, showSize, goodSize, wantSize},
	{"pids", float64(DefaultPIDs), func(l sallyport.LimitsProposal) (float64, bool) { return number(l.PIDs) },
		func(l *sallyport.Limits, v float64) { l.PIDs = int64(v) }, showNumber,
		func(v float64) bool { return v >= 1 && v <= maxPIDs }, (*pids)(nil).want()},
	{"disk", float64(DefaultDisk), func(l sallyport.LimitsProposal) (float64, bool) { return number(l.Disk) },
		func(l *sallyport.Limits, v float64) { l.Disk = int64(v) }, showSize, goodSize, wantSize},
	{"output", float64(DefaultOutput), func(l sallyport.LimitsProposal) (float64, bool) { return number(l.Output) },
		func(l *sallyport.Limits, v float64) { l.Output = int64(v) }, showSize, goodSize, wantSize},
	{"cpus", math.Inf(1), func(l sallyport.LimitsProposal) (float64, bool) { return number(l.CPU) },
		func(l *sallyport.Limits, v float64) {
			if !math.IsInf(v, 1) {
				l.CPU = v
			}
		}, showNumber, cpuOK, (*cpus)(nil).want()},
}

func number[T ~int64 | ~float64](p *T) (float64, bool) {
	if p == nil {
		return 0, false
	}
	return float64(*p), true
}

func goodSize(v float64) bool     { return v >= float64(minSize) && v <= float64(maxSize) }
func showTime(v float64) string   { return formatDuration(time.Duration(v)) }
func showSize(v float64) string   { return formatSize(int64(v)) }
func showNumber(v float64) string { return fmt.Sprintf("%g", v) }

// limits resolves every limit. What the repository, the user's defaults or this program propose is lowered
// to the ceiling with a notice; what the WorkOrder asks beyond a bound is refused.
func (c *compiler) limits() (sallyport.Limits, error) {
	var out sallyport.Limits
	for _, f := range limitFields {
		v, err := c.limit(f)
		if err != nil {
			return out, err
		}
		f.set(&out, v)
	}
	if n := float64(c.in.Host.CPUs); n > 0 && out.CPU > n {
		c.note("limits.cpus is %g: this machine has no more", n)
		out.CPU = n
	}
	return out, nil
}

// bound is a value with the file and line that set it.
type bound struct {
	value float64
	where string
}

func (c *compiler) limit(f limitField) (float64, error) {
	field := "limits." + f.name
	policy, floor := c.policyLimit(f)
	ceiling := operatorBound(c.in.Ceiling, f)
	asked, said := f.said(c.in.WorkOrder.Limits)
	if !said {
		if ceiling != nil && policy > ceiling.value {
			c.note("%s is %s: the ceiling at %s", field, f.show(ceiling.value), ceiling.where)
			policy = ceiling.value
		}
		return policy, nil
	}
	place := c.in.Places.at(field)
	switch {
	case !f.good(asked):
		return 0, invalid(place, "expected "+f.want, "")
	case ceiling != nil && asked > ceiling.value:
		return 0, denied(place, fmt.Sprintf("%s %s is above the ceiling of %s at %s", field, f.show(asked), f.show(ceiling.value), ceiling.where), "ask for less, or ask the operator")
	case floor != nil && asked > floor.value && !c.mayGrant(field):
		return 0, denied(place, fmt.Sprintf("%s %s is above the %s at %s; a work order can only narrow", field, f.show(asked), f.show(floor.value), floor.where), c.grantHint())
	case floor != nil && asked > floor.value:
		c.note("%s is %s, more than the %s at %s: granted by flag", field, f.show(asked), f.show(floor.value), floor.where)
	}
	return asked, nil
}

// policyLimit is the value without the WorkOrder, and the bound that somebody wrote (nil: only defaults).
func (c *compiler) policyLimit(f limitField) (float64, *bound) {
	value, floor := f.std, (*bound)(nil)
	if c.in.Repository != nil {
		if v, ok := f.said(c.in.Repository.Limits); ok {
			value, floor = v, &bound{v, c.in.Repository.Places.at("limits." + f.name)}
		}
	}
	if user := operatorBound(c.in.User, f); user != nil {
		if floor != nil && user.value < floor.value {
			c.note("limits.%s is %s: the user's configuration at %s", f.name, f.show(user.value), user.where)
		}
		if floor == nil || user.value < floor.value {
			value, floor = user.value, user
		}
		if floor == user {
			return value, floor
		}
	}
	if half := c.halfOfMemory(); f.name == "memory" && half > 0 && value > half {
		c.note("limits.memory is %s: half of this machine's", f.show(half))
		value = half
	}
	return value, floor
}

// halfOfMemory is the most that a proposal gets, in whole MiB; 0 where the host's memory is not known.
func (c *compiler) halfOfMemory() float64 {
	half := c.in.Host.Memory / 2
	return float64(half - half%minSize)
}

func operatorBound(op *Operator, f limitField) *bound {
	if op == nil {
		return nil
	}
	if v, ok := f.said(op.Limits); ok {
		return &bound{v, op.Places.at("limits." + f.name)}
	}
	return nil
}
