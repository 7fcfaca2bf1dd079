package github

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/google/go-github/v93/github"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/forge"
)

const opAttest = "store an attestation at the forge"

var _ forge.Attester = (*Driver)(nil)

// sealed is what tells one bundle from another, however a forge writes it: what was signed, and the signatures.
type sealed struct {
	Envelope struct {
		Payload    string
		Signatures []struct{ Sig string }
	} `json:"dsseEnvelope"`
}

func (s sealed) equal(o sealed) bool {
	return s.Envelope.Payload == o.Envelope.Payload && slices.Equal(s.Envelope.Signatures, o.Envelope.Signatures)
}

// Attest looks for the bundle and stores it where it is not there: GitHub keeps the same one twice.
func (d *Driver) Attest(ctx context.Context, g forge.Grant, subject sallyport.Digest, bundle []byte) error {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	var want sealed
	if err := json.Unmarshal(bundle, &want); err != nil {
		return d.fail(opAttest, sallyport.CodeInvalid, "the bundle is no JSON", "")
	}
	if there, err := d.attested(ctx, g, subject, want); err != nil || there {
		return err
	}
	return d.ask(ctx, opAttest, g.Secret, true, func(ctx context.Context, c *github.Client) (*github.Response, error) {
		req, err := c.NewRequest(ctx, http.MethodPost, fmt.Sprintf("repos/%s/%s/attestations", d.owner, d.name), map[string]json.RawMessage{"bundle": bundle})
		if err != nil {
			return nil, err
		}
		var made struct{ ID int64 }
		res, err := c.Do(req, &made)
		if made.ID == 0 {
			err = cmp.Or(err, errNothing)
		}
		return res, err
	})
}

// attested looks at one page: more than a hundred attestations of one subject are no doing of ours, and one that is stored twice
// does no harm. The same goes for one whose bundle GitHub does not put into the list.
func (d *Driver) attested(ctx context.Context, g forge.Grant, subject sallyport.Digest, want sealed) (there bool, err error) {
	err = d.ask(ctx, opAttest, g.Secret, false, func(ctx context.Context, c *github.Client) (*github.Response, error) {
		list, res, err := c.Repositories.ListAttestations(ctx, d.owner, d.name, string(subject), &github.ListOptions{PerPage: perPage})
		if err != nil || list == nil {
			return res, cmp.Or(err, errNothing)
		}
		there = slices.ContainsFunc(list.Attestations, func(a *github.Attestation) bool {
			var has sealed
			return a != nil && json.Unmarshal(a.Bundle, &has) == nil && has.equal(want)
		})
		return res, nil
	})
	if sallyport.CodeOf(err) == sallyport.CodeNotFound { // the answer where there is none
		return false, nil
	}
	return there, err
}
