package spend

import "fmt"

// Reason is why a request is not sent. Codes are only ever added.
type Reason string

// The reasons.
const (
	ReasonOver      Reason = "spend-limit"      // it would go over the limit
	ReasonClosed    Reason = "spend-unforeseen" // an earlier request cost more than could be foreseen
	ReasonMany      Reason = "spend-requests"   // more requests than are kept on record
	ReasonCall      Reason = "spend-call"       // a call of the API that the table does not price
	ReasonBody      Reason = "spend-body"       // not one strict JSON object
	ReasonModel     Reason = "spend-model"      // no price for the model
	ReasonOutput    Reason = "spend-output"     // nothing says how long the answer may get
	ReasonReference Reason = "spend-reference"  // something that lies at the API: an earlier response, a file, a stored prompt
	ReasonRemote    Reason = "spend-remote"     // something that the API would fetch
	ReasonTool      Reason = "spend-tool"       // a tool that the API itself runs
	ReasonMedia     Reason = "spend-media"      // a document, sound or image whose cost the body does not bound
	ReasonTier      Reason = "spend-tier"       // another service tier, region or speed
	ReasonSeveral   Reason = "spend-several"    // more than one answer, or one in the background
	ReasonField     Reason = "spend-field"      // a part of the request that is not known to be free of charge
)

// Refusal is a no with its sentence. It is an error.
type Refusal struct {
	Reason  Reason
	Message string // bounded and printable: names come from the sandbox
}

func (r *Refusal) Error() string { return r.Message }

func refuse(why Reason, format string, args ...any) *Refusal {
	return &Refusal{Reason: why, Message: "under a spend limit: " + fmt.Sprintf(format, args...)}
}

// shown makes a name of the sandbox's fit for a sentence.
func shown(s string) string {
	const most = 60
	if len(s) > most {
		return fmt.Sprintf("%+q…", s[:most])
	}
	return fmt.Sprintf("%+q", s)
}
