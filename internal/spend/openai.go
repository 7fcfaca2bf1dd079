package spend

import "strings"

// chatRequest reads a body of the Chat Completions API.
func chatRequest(w *walk) *Refusal {
	w.cache = cacheHour // written without being asked for
	return w.object("the body", func(key string) *Refusal {
		switch key {
		case "model":
			return w.name()
		case "max_tokens", "max_completion_tokens":
			return w.take(key)
		case "n":
			return w.single()
		case "messages":
			return w.list("messages", func() *Refusal {
				return w.object("a message", func(key string) *Refusal {
					switch key {
					case "content":
						return w.content(chatPart)
					case "audio":
						return w.absent(ReasonReference, "sound that lies at the API is not bounded by the request")
					}
					return w.skip()
				})
			})
		case "tools":
			return w.nullOr(func() *Refusal { return w.list("tools", w.chatTool) })
		case "service_tier":
			return w.oneOf(ReasonTier, "service_tier", "default", "auto")
		case "reasoning_effort":
			return w.effort()
		case "modalities":
			return w.nullOr(func() *Refusal {
				return w.list("modalities", func() *Refusal { return w.oneOf(ReasonMedia, "an answer", "text") })
			})
		case "audio":
			return w.absent(ReasonMedia, "sound is not priced")
		case "prediction":
			return w.absent(ReasonField, "a prediction is charged for beyond the answer")
		case "web_search_options":
			return w.absent(ReasonTool, "a web search is a tool that the API runs")
		case "stream", "stream_options", "temperature", "top_p", "stop", "tool_choice", "parallel_tool_calls", "response_format", "seed", "user", "metadata", "store",
			"logprobs", "top_logprobs", "logit_bias", "presence_penalty", "frequency_penalty", "verbosity", "prompt_cache_key",
			"prompt_cache_retention", "safety_identifier", "functions", "function_call":
			return w.skip()
		}
		return unknownField(key)
	})
}

// effort takes the words whose thinking is part of the one answer. Another may mean several tries.
func (w *walk) effort() *Refusal {
	return w.oneOf(ReasonTier, "an effort", "none", "minimal", "low", "medium", "high", "xhigh", "max")
}

func (w *walk) reasoning() *Refusal {
	return w.object("reasoning", func(key string) *Refusal {
		switch key {
		case "effort":
			return w.effort()
		case "summary", "generate_summary", "context":
			return w.skip()
		}
		return unknownField("reasoning." + key)
	})
}

// single takes 1 alone.
func (w *walk) single() *Refusal {
	if w.null() {
		return nil
	}
	if n, ok := w.number(); !ok || n != 1 {
		return refuse(ReasonSeveral, "more than one answer at once")
	}
	return nil
}

func chatPart(w *walk) *Refusal {
	switch kind := w.member("type"); kind {
	case "text", "refusal":
		return w.skip()
	case "image_url":
		return w.object("a part", func(key string) *Refusal {
			if key != "image_url" {
				return w.skip()
			}
			if w.kind() == '"' {
				return w.imageURL()
			}
			return w.object("image_url", func(key string) *Refusal {
				if key == "url" {
					return w.imageURL()
				}
				return w.skip()
			})
		})
	case "input_audio", "file":
		return refuse(ReasonMedia, "what %s costs is not bounded by the request", shown(kind))
	default:
		return refuse(ReasonField, "the part %s is not known to be free of charge", shown(kind))
	}
}

// imageURL takes a picture that stands in the request itself.
func (w *walk) imageURL() *Refusal {
	from := w.i
	if w.kind() != '"' {
		return refuse(ReasonMedia, "expected an image as text")
	}
	raw := w.pass()
	if !strings.HasPrefix(string(raw[1:min(len(raw), 12)]), "data:image/") {
		return refuse(ReasonRemote, "an image that the API would fetch is not bounded by the request; send it as data:image/…")
	}
	w.images++
	w.imageData += int64(w.i - from)
	return nil
}

func (w *walk) chatTool() *Refusal {
	if kind := w.member("type"); kind != "function" && kind != "custom" {
		return serverTool(kind)
	}
	return w.skip()
}

// responsesRequest reads a body of the Responses API.
func responsesRequest(w *walk) *Refusal {
	w.cache = cacheHour // written without being asked for
	return w.object("the body", func(key string) *Refusal {
		switch key {
		case "model":
			return w.name()
		case "max_output_tokens":
			return w.take(key)
		case "input":
			if w.kind() == '"' {
				return w.skip()
			}
			return w.list("input", w.responsesItem)
		case "tools":
			return w.nullOr(func() *Refusal { return w.list("tools", w.responsesTool) })
		case "reasoning":
			return w.nullOr(w.reasoning)
		case "previous_response_id", "conversation", "prompt":
			return w.absent(ReasonReference, "%s names something that lies at the API, which the request does not bound", key)
		case "background":
			if on, ok := w.isTrue(); !ok || on {
				return w.absent(ReasonSeveral, "an answer in the background is not seen")
			}
			return nil
		case "service_tier":
			return w.oneOf(ReasonTier, "service_tier", "default", "auto")
		case "context_management":
			return w.nullOr(func() *Refusal {
				return w.list(key, func() *Refusal { return refuse(ReasonTool, "compaction is a call that the API makes itself") })
			})
		case "instructions", "tool_choice", "parallel_tool_calls", "store", "stream", "stream_options", "include", "prompt_cache_key",
			"prompt_cache_retention", "text", "truncation", "temperature", "top_p", "top_logprobs", "metadata", "user", "safety_identifier", "client_metadata",
			"max_tool_calls":
			return w.skip()
		}
		return unknownField(key)
	})
}

func (w *walk) responsesItem() *Refusal {
	kind := w.member("type")
	switch kind {
	case "", "message":
		return w.inside("content", responsesPart)
	case "function_call_output", "custom_tool_call_output":
		return w.inside("output", responsesPart)
	case "function_call", "custom_tool_call", "local_shell_call", "local_shell_call_output", "shell_call", "shell_call_output",
		"apply_patch_call", "apply_patch_call_output", "reasoning":
		return w.skip()
	case "additional_tools", "tool_search_output":
		return w.object("an item", func(key string) *Refusal {
			if key == "tools" {
				return w.list("tools", w.responsesTool)
			}
			return w.skip()
		})
	case "tool_search_call":
		return w.skip()
	case "item_reference":
		return refuse(ReasonReference, "an item that lies at the API is not bounded by the request")
	}
	if strings.HasSuffix(kind, "_call") || strings.HasPrefix(kind, "mcp_") {
		return serverTool(kind)
	}
	return refuse(ReasonField, "the item %s is not known to be free of charge", shown(kind))
}

// inside reads the parts below one key of an item.
func (w *walk) inside(parts string, part func(*walk) *Refusal) *Refusal {
	return w.object("an item", func(key string) *Refusal {
		if key == parts {
			return w.content(part)
		}
		return w.skip()
	})
}

func responsesPart(w *walk) *Refusal {
	switch kind := w.member("type"); kind {
	case "input_text", "output_text", "refusal", "summary_text", "reasoning_text", "text":
		return w.skip()
	case "input_image":
		return w.object("a part", func(key string) *Refusal {
			switch key {
			case "image_url":
				return w.nullOr(w.imageURL)
			case "file_id":
				return w.absent(ReasonReference, "an image that lies at the API is not bounded by the request")
			}
			return w.skip()
		})
	case "input_file", "input_audio":
		return refuse(ReasonMedia, "what %s costs is not bounded by the request", shown(kind))
	default:
		return refuse(ReasonField, "the part %s is not known to be free of charge", shown(kind))
	}
}

func (w *walk) responsesTool() *Refusal {
	kind := w.member("type")
	switch kind {
	case "function", "custom", "local_shell", "apply_patch":
		return w.skip()
	case "namespace":
		return w.object("a tool", func(key string) *Refusal {
			if key == "tools" {
				return w.list("tools", w.responsesTool)
			}
			return w.skip()
		})
	case "tool_search": // run by the agent where it says so
		if w.member("execution") == "client" {
			return w.skip()
		}
	}
	return serverTool(kind)
}
