package agents

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sallyport.dev/sallyport"
	"sallyport.dev/sallyport/internal/agent"
	"sallyport.dev/sallyport/test/world"
	"sallyport.dev/sallyport/tools/scripted/model"
)

// plainly is how a person starts the agent who knows nothing of Sallyport: it asks for its API's own host.
var plainly = map[string]string{
	"claude-code": "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 DISABLE_TELEMETRY=1 DISABLE_AUTOUPDATER=1 claude --print --output-format stream-json --verbose --dangerously-skip-permissions -- 'Make a good.'",
	"codex": `codex exec --json --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox -c model_provider='"plain"' ` +
		`-c 'model_providers.plain={name="plain",base_url="https://api.openai.com/v1",wire_api="responses",env_key="OPENAI_API_KEY"}' -c check_for_update_on_startup=false -c analytics.enabled=false -c 'otel.exporter="none"' -- 'Make a good.'`,
}

// TestAgentsThroughOpenedTLS: a real agent, as a plain command, speaks to its API's own host over https. The gateway
// opens that by the preset's rules, puts the credential in for a placeholder, and the change is accepted.
func TestAgentsThroughOpenedTLS(t *testing.T) {
	presets := map[string]string{"claude-code": "anthropic", "codex": "openai"}
	hosts := map[string]string{"claude-code": "api.anthropic.com", "codex": "api.openai.com"}
	headers := map[string]string{"claude-code": "header: x-api-key", "codex": `header: authorization, prefix: "Bearer "`}
	for _, who := range append(agent.Names(), "claude-code by subscription") {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			name, login, _ := strings.Cut(who, " ")
			a := apis[name]
			m := &scripted{Endpoint: model.New(model.Script{Commands: []string{"printf 'good\\n' > a"}, Credential: credential, Placeholder: "sallyport-", Login: login != "", Closing: closing}, nil),
				arrived: make(chan struct{}, 64), hold: make(chan struct{})}
			close(m.hold)
			m.server = httptest.NewUnstartedServer(m)
			config, authority := world.Everybody(t)
			m.server.TLS = config
			m.server.StartTLS()
			t.Cleanup(m.server.Close)
			w := newWorld(t, world.Ordinary)
			lent := "from: {env: MODEL_KEY}, " + headers[name] + ", env: " + a.keyEnv
			if login != "" {
				lent = `from: {login: claude-code}, header: authorization, prefix: "Bearer "`
				file := w.File(filepath.Join(w.Home, ".claude", ".credentials.json"), fmt.Sprintf(`{"claudeAiOauth":{"accessToken":%q,"refreshToken":"sk-ant-ort01-%s","expiresAt":%d,"scopes":["user:inference"],"subscriptionType":"max"}}`,
					credential, strings.Repeat("r", 40), time.Now().Add(time.Hour).UnixMilli()))
				w.Must(os.Chmod(file, 0o600))
			}
			w.File(filepath.Join(w.Home, ".config", "sallyport", "config.yaml"), "version: 1\n"+
				"resolve: {"+hosts[name]+": \""+strings.TrimPrefix(m.server.URL, "https://")+"\"}\n"+
				"credentials:\n  - {name: model, host: "+hosts[name]+", "+lent+"}\n")
			w.Env = append(w.Env, path(w), "MODEL_KEY="+credential, "SSL_CERT_FILE="+w.File(filepath.Join(w.Dir, "outside.pem"), authority))
			rep := w.Sallyport("run", "--name", "x", "-m", "Make a good.", "--egress", presets[name], "--credential", "model", "--json", "--", "sh", "-c", plainly[name]).Want(0).Report()
			if rep.State != sallyport.AttemptAccepted || w.Git("show", rep.Branch+":a") != "good" {
				t.Fatalf("%s %+v, branch %q", rep.State, rep.Reason, rep.Branch)
			}
			m.right(t, 2)
			if held := w.Holding(w.State, credential, credential[3:]); len(held) > 0 {
				t.Errorf("the credential is in %q", held)
			}
			w.Sallyport("logs", string(rep.Attempt)).Want(0).Says(closing)
		})
	}
}
