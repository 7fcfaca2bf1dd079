package sallyport

import (
	"encoding/json"
	"unicode/utf8"
)

// plainChange is Change without its methods.
type plainChange Change

// MarshalJSON keeps a path whose bytes are not UTF-8: JSON has no way to write them, and two such paths may
// look the same.
func (c Change) MarshalJSON() ([]byte, error) {
	if !utf8.ValidString(c.Path) {
		c.PathBytes = []byte(c.Path)
	}
	return json.Marshal(plainChange(c))
}

// UnmarshalJSON is MarshalJSON's way back.
func (c *Change) UnmarshalJSON(b []byte) error {
	if err := json.Unmarshal(b, (*plainChange)(c)); err != nil {
		return err
	}
	if c.PathBytes != nil {
		c.Path, c.PathBytes = string(c.PathBytes), nil
	}
	return nil
}
