package spend

import "bytes"

// eventReader cuts a stream of server-sent events (WHATWG HTML, 9.2) into its events. Any split of the bytes gives the
// same events. An event of more than maxAnswer bytes is passed over and counted in dropped.
type eventReader struct {
	event func(kind string, data []byte)

	line    []byte // not yet ended
	kind    string
	data    []byte
	some    bool // there was a data line
	cr      bool // the last byte was a carriage return, which ended a line
	over    bool // this event is too long
	dropped int64
}

func (r *eventReader) write(p []byte) {
	for len(p) > 0 {
		if r.cr && p[0] == '\n' {
			p = p[1:]
		}
		r.cr = false
		i := bytes.IndexAny(p, "\r\n")
		if i < 0 {
			r.hold(p)
			return
		}
		r.hold(p[:i])
		r.cr = p[i] == '\r'
		p = p[i+1:]
		r.endLine()
	}
}

func (r *eventReader) hold(p []byte) {
	if r.over || len(r.line)+len(r.data)+len(p) > maxAnswer {
		r.dropped += int64(len(p) + len(r.line) + len(r.data))
		r.over, r.data = true, r.data[:0]
		if len(p) > 0 {
			r.line = append(r.line[:0], 'x') // this is no empty line
		}
		return
	}
	r.line = append(r.line, p...)
}

func (r *eventReader) endLine() {
	line := r.line
	r.line = r.line[:0]
	if len(line) == 0 {
		r.dispatch()
		return
	}
	if r.over {
		return
	}
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(field) {
	case "event":
		r.kind = string(value[:min(len(value), 100)])
	case "data":
		if r.some {
			r.data = append(r.data, '\n')
		}
		r.data, r.some = append(r.data, value...), true
	}
}

func (r *eventReader) dispatch() {
	if r.some && !r.over {
		r.event(r.kind, r.data)
	}
	r.kind, r.data, r.some, r.over = "", r.data[:0], false, false
}

// rest is how many bytes no event was made of.
func (r *eventReader) rest() int64 { return r.dropped + int64(len(r.line)+len(r.data)) }
