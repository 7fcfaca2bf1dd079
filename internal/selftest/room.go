package selftest

import (
	"fmt"
	"strings"

	"sallyport.dev/sallyport/internal/corpus"
)

// rooms are the library functions that are given bytes instead of a main job. Each refuses them with an error, or
// says what it made of them.
var rooms = map[string]func([]byte) (string, error){}

// inRoom gives a case's bytes to its room.
func inRoom(k corpus.Case) (Status, string) {
	got, err := rooms[k.Room](k.Input)
	switch {
	case k.Want == nil && err == nil:
		return NotHeld, fmt.Sprintf("%s takes it for %.100q", k.Room, got)
	case k.Want == nil:
		for _, s := range k.Says {
			if !strings.Contains(err.Error(), s) {
				return NotHeld, fmt.Sprintf("%s refuses it for another reason: %v", k.Room, err)
			}
		}
		return Held, fmt.Sprintf("refused by %s", k.Room)
	case err != nil:
		return NotHeld, fmt.Sprintf("%s: %v", k.Room, err)
	case got != *k.Want:
		return NotHeld, fmt.Sprintf("%s makes %.200q of it, expected %.200q", k.Room, got, *k.Want)
	}
	return Held, "harmless by " + k.Room
}
