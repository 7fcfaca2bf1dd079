package evidence

import (
	"strings"
	"testing"
)

func TestCheckJSON(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":1,"b":[{"a":2},{"a":3}]}`: "",
		` "text" `:                      "",
		`{"a":1,"a":1}`:                 "twice",
		`{"a":1,"A":1}`:                 "twice",
		`{"s":1,"\u017f":1}`:            "twice",
		`{"k":1,"\u212a":1}`:            "twice",
		`[{"x":{"b":1,"\u0062":2}}]`:    "twice",
		`null`:                          "null",
		`{"a":[null]}`:                  "null",
		`{} {}`:                         "after the document",
		`{}x`:                           "after the document",
		`{"a":}`:                        "JSON",
		`{"a"`:                          "",
		``:                              "JSON document",
		"\"\xff\"":                      "UTF-8",
		strings.Repeat("[", 40) + strings.Repeat("]", 40): "levels",
	} {
		err := checkJSON([]byte(in))
		bad := want != "" || in == `{"a"`
		if (err != nil) != bad || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: got %v, want an error with %q", in, err, want)
		}
	}
}
