package screen

import (
	"fmt"
	"net"
	"slices"
	"strconv"

	"sallyport.dev/sallyport"
)

// maxRefusalRows is how many refusals the result page shows; `sallyport show` has them all.
const maxRefusalRows = 2

// Asked is what an agent wanted to reach and did not: "https a.example:443 GET /x". It is not neutralised.
func Asked(r sallyport.Refusal) string {
	if r.Host == "" {
		return fmt.Sprintf("%q", r.Asked)
	}
	text := net.JoinHostPort(r.Host, strconv.Itoa(int(r.Port)))
	if r.Protocol != "" {
		text = string(r.Protocol) + " " + text
	}
	if r.Method != "" {
		text += " " + r.Method + " " + r.Path
	}
	return text
}

// refusals shows the line that would allow each, whole on a screen of 80 columns where it can be: it is copied.
func (p *page) refusals(r sallyport.Report) {
	for i, f := range r.Refusals[:min(len(r.Refusals), maxRefusalRows)] {
		label, text := "refused", f.Line
		if i > 0 {
			label = ""
		}
		if text == "" {
			text = Asked(f)
		}
		if f.Stage != "" {
			text = f.Stage + " " + text
		}
		p.row(label, yellow, text+"  "+f.Reason+times(f.Count))
	}
	switch more := len(r.Refusals) - maxRefusalRows; {
	case more > 0:
		p.row("", dim, fmt.Sprintf("%d more: sallyport show %s", more, Short(r.Attempt)))
	case slices.ContainsFunc(r.Refusals, func(f sallyport.Refusal) bool { return f.Line != "" }):
		p.row("", dim, toAllow(r.Refusals))
	}
}

// toAllow says where lines belong. What setup asked for is not the agent's to reach.
func toAllow(refused []sallyport.Refusal) string {
	for _, f := range refused {
		if f.Stage != "" {
			return "to allow it: a line under egress: of that setup command"
		}
	}
	return "to allow it: a line under egress:, or run --egress 'LINE'"
}

func times(n int64) string {
	if n < 2 {
		return ""
	}
	return fmt.Sprintf(", %d times", n)
}
