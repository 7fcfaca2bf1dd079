package evidence

import (
	"strings"
	"testing"

	"sallyport.dev/sallyport"
)

func TestSetupIsHeldToItsForm(t *testing.T) {
	good := Setup{Number: 1, For: "base", Command: "npm ci", Status: sallyport.SetupDone}
	if err := checkSetups([]Setup{good}); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Setup){
		"no number":        func(s *Setup) { s.Number = 0 },
		"no command":       func(s *Setup) { s.Command = "" },
		"for nobody":       func(s *Setup) { s.For = "agent" },
		"no status":        func(s *Setup) { s.Status = "" },
		"negative seconds": func(s *Setup) { s.Seconds = -1 },
		"more refused":     func(s *Setup) { s.Egress = &Egress{Refused: 1} },
		"negative bytes":   func(s *Setup) { s.Egress = &Egress{BytesUp: -1} },
	} {
		bad := good
		change(&bad)
		if err := checkSetups([]Setup{good, bad}); err == nil || !strings.Contains(err.Error(), "setup[1]") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSetupIsTold(t *testing.T) {
	r := sallyport.Report{Setup: []sallyport.SetupResult{
		{Number: 1, For: "base", Run: "npm ci", Status: sallyport.SetupDone, Reused: "att_1", Egress: &sallyport.EgressTotals{Requests: 2, Refused: 1, BytesDown: 9}, Tail: "not in evidence"},
		{Number: 1, For: "change", Run: "npm ci --ignore-scripts", Status: sallyport.SetupFailed, Locks: []string{"package-lock.json"}},
	}}
	said := strings.Join(records(FromReport(r)), "\n")
	for _, want := range []string{"setup 1 (npm ci), done, by attempt att_1 and kept; 2 request(s), 1 refused, 0 bytes up, 9 down.", "setup 1 (npm ci --ignore-scripts), failed, from the change's package-lock.json without scripts."} {
		if !strings.Contains(said, want) {
			t.Errorf("not said: %s\n%s", want, said)
		}
	}
	if strings.Contains(said, "not in evidence") {
		t.Error(said)
	}
}
