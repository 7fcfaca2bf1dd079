package spend

import (
	"slices"
	"strings"
)

// messagesRequest reads a body of the Messages API.
func messagesRequest(w *walk) *Refusal {
	return w.object("the body", func(key string) *Refusal {
		switch key {
		case "model":
			return w.name()
		case "max_tokens":
			return w.take("max_tokens")
		case "messages":
			return w.list("messages", func() *Refusal {
				return w.object("a message", func(key string) *Refusal {
					if key == "content" {
						return w.content(messagesBlock)
					}
					return w.skip()
				})
			})
		case "system":
			return w.content(messagesBlock)
		case "tools":
			return w.nullOr(func() *Refusal { return w.list("tools", w.messagesTool) })
		case "thinking":
			return w.messagesThinking()
		case "output_config":
			return w.only(key, map[string]bool{"effort": true, "format": true, "task_budget": true})
		case "cache_control":
			return w.cacheControl()
		case "context_management":
			return w.nullOr(w.messagesContext)
		case "service_tier":
			return w.oneOf(ReasonTier, "service_tier", "standard_only", "auto")
		case "speed":
			return w.oneOf(ReasonTier, "speed", "standard")
		case "inference_geo":
			return w.oneOf(ReasonTier, "inference_geo", "global")
		case "container":
			return w.absent(ReasonTool, "a container is a tool that the API runs")
		case "mcp_servers":
			return w.nullOr(func() *Refusal {
				return w.list("mcp_servers", func() *Refusal { return refuse(ReasonTool, "mcp_servers are tools that the API runs") })
			})
		case "stream", "tool_choice", "metadata", "stop_sequences", "temperature", "top_k", "top_p", "output_format":
			return w.skip()
		}
		return unknownField(key)
	})
}

// only passes over an object that has no other keys than these.
func (w *walk) only(what string, keys map[string]bool) *Refusal {
	return w.nullOr(func() *Refusal {
		return w.object(what, func(key string) *Refusal {
			if !keys[key] {
				return unknownField(what + "." + key)
			}
			return w.skip()
		})
	})
}

func unknownField(key string) *Refusal {
	return refuse(ReasonField, "the field %s is not known to be free of charge", shown(key))
}

func (w *walk) nullOr(f func() *Refusal) *Refusal {
	if w.null() {
		return nil
	}
	return f()
}

// content is text, or a list of blocks.
func (w *walk) content(block func(*walk) *Refusal) *Refusal {
	if k := w.kind(); k == '"' || k == 'n' {
		return w.skip()
	}
	return w.list("content", func() *Refusal { return block(w) })
}

func messagesBlock(w *walk) *Refusal {
	if w.kind() == '"' {
		return w.skip()
	}
	kind := w.member("type")
	switch kind {
	case "text", "thinking", "redacted_thinking", "tool_use":
		return w.skip()
	case "tool_result":
		return w.object("a block", func(key string) *Refusal {
			switch key {
			case "content":
				return w.content(messagesBlock)
			case "cache_control":
				return w.cacheControl()
			}
			return w.skip()
		})
	case "search_result":
		return w.skip()
	case "image":
		return w.object("a block", func(key string) *Refusal {
			switch key {
			case "source":
				return w.messagesImage()
			case "cache_control":
				return w.cacheControl()
			}
			return w.skip()
		})
	case "document":
		return w.messagesDocument()
	case "container_upload":
		return refuse(ReasonReference, "a file that lies at the API is not bounded by the request")
	}
	if strings.HasSuffix(kind, "_tool_result") || kind == "server_tool_use" || kind == "mcp_tool_use" {
		return refuse(ReasonTool, "%s belongs to a tool that the API runs", shown(kind))
	}
	return refuse(ReasonField, "the block %s is not known to be free of charge", shown(kind))
}

func (w *walk) messagesImage() *Refusal {
	if kind := w.member("type"); kind != "base64" {
		return notInBody("an image", kind)
	}
	w.images++
	return w.object("source", func(key string) *Refusal {
		from := w.i
		if err := w.skip(); err != nil || key != "data" {
			return err
		}
		w.imageData += int64(w.i - from)
		return nil
	})
}

func notInBody(what, kind string) *Refusal {
	if kind == "url" {
		return refuse(ReasonRemote, "%s that the API would fetch is not bounded by the request", what)
	}
	return refuse(ReasonReference, "%s that does not stand in the request is not bounded by it (source %s)", what, shown(kind))
}

// messagesDocument takes plain text: pages are counted as pictures too, and a small file has many.
func (w *walk) messagesDocument() *Refusal {
	return w.object("a block", func(key string) *Refusal {
		switch key {
		case "cache_control":
			return w.cacheControl()
		case "source":
			switch kind := w.member("type"); kind {
			case "text":
				return w.skip()
			case "base64":
				return refuse(ReasonMedia, "what the pages of a document cost is not bounded by the request")
			case "content":
				return w.object("source", func(key string) *Refusal {
					if key == "content" {
						return w.content(messagesBlock)
					}
					return w.skip()
				})
			default:
				return notInBody("a document", kind)
			}
		}
		return w.skip()
	})
}

// clientTools are the tools with a type that the agent runs itself.
var clientTools = []string{"bash_", "text_editor_", "memory_"}

func (w *walk) messagesTool() *Refusal {
	kind := w.member("type")
	if kind == "" || kind == "custom" || slices.ContainsFunc(clientTools, func(p string) bool { return strings.HasPrefix(kind, p) }) {
		return w.skip()
	}
	return serverTool(kind)
}

func serverTool(kind string) *Refusal {
	return refuse(ReasonTool, "the tool %s is one that the API runs or charges for", shown(kind))
}

// messagesThinking: a budget may be above max_tokens.
func (w *walk) messagesThinking() *Refusal {
	if w.null() {
		return nil
	}
	w.thinking = w.member("type") != "disabled"
	return w.object("thinking", func(key string) *Refusal {
		if key == "budget_tokens" {
			return w.take("budget_tokens")
		}
		return w.skip()
	})
}

// messagesContext takes edits that leave parts of the prompt out. One that writes a summary is another call of the model.
func (w *walk) messagesContext() *Refusal {
	return w.object("context_management", func(key string) *Refusal {
		if key != "edits" {
			return unknownField("context_management." + key)
		}
		return w.list("edits", func() *Refusal {
			if kind := w.member("type"); !strings.HasPrefix(kind, "clear_") {
				return refuse(ReasonTool, "the edit %s is done by a call that the API makes itself", shown(kind))
			}
			return w.skip()
		})
	})
}
