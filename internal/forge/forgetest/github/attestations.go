package github

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
)

// Attestation is one that is stored.
type Attestation struct {
	Subjects []string // "sha256:…"
	Bundle   json.RawMessage
}

// Attestations are those there are, oldest first.
func (s *Server) Attestations() []Attestation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.stored)
}

// attest stores one, also where it is there already. The page says what is asked for and the answers 201, 403 and 422; not which
// bundles are refused. Whether GitHub takes one without a certificate nobody has told. That this server does is no word on it.
// https://docs.github.com/rest/repos/attestations#create-an-attestation
func (s *Server) attest(w http.ResponseWriter, r *http.Request) {
	if _, ok := s.actor(w, r, "attestations", "write"); !ok {
		return
	}
	var asked struct{ Bundle json.RawMessage }
	var bundle struct {
		MediaType            string
		VerificationMaterial map[string]any
		Envelope             struct{ Payload string } `json:"dsseEnvelope"`
	}
	var statement struct {
		Subject []struct{ Digest map[string]string }
	}
	_ = json.NewDecoder(r.Body).Decode(&asked)
	payload, err := []byte(nil), json.Unmarshal(asked.Bundle, &bundle)
	if err == nil {
		payload, err = base64.StdEncoding.DecodeString(bundle.Envelope.Payload)
	}
	if err == nil {
		err = json.Unmarshal(payload, &statement)
	}
	a := Attestation{Bundle: asked.Bundle}
	for _, sub := range statement.Subject {
		if d := sub.Digest["sha256"]; d != "" {
			a.Subjects = append(a.Subjects, "sha256:"+d)
		}
	}
	if err != nil || bundle.MediaType != "application/vnd.dev.sigstore.bundle.v0.3+json" || len(bundle.VerificationMaterial) == 0 || a.Subjects == nil {
		refuse(w, http.StatusUnprocessableEntity, "Invalid Argument")
		return
	}
	s.stored = append(s.stored, a)
	reply(w, http.StatusCreated, map[string]any{"id": len(s.stored)})
}

// listAttestations answers 404 where there is none, as GitHub does (https://github.com/kedacore/http-add-on/issues/1604 shows it);
// its page has only the 200. https://docs.github.com/rest/repos/attestations#list-attestations
func (s *Server) listAttestations(w http.ResponseWriter, r *http.Request) {
	if _, ok := s.actor(w, r, "attestations", "read"); !ok {
		return
	}
	list := []any{}
	for _, a := range slices.Backward(s.stored) {
		if slices.Contains(a.Subjects, r.PathValue("digest")) {
			list = append(list, map[string]any{"bundle": a.Bundle, "repository_id": s.state.ID, "bundle_url": s.url + "/bundle", "initiator": "user"})
		}
	}
	if size, _ := strconv.Atoi(r.URL.Query().Get("per_page")); len(list) > max(size, 1) {
		list = list[:max(size, 1)]
	}
	if len(list) == 0 {
		refuse(w, http.StatusNotFound, "Not Found")
		return
	}
	reply(w, http.StatusOK, map[string]any{"attestations": list})
}
