package manifest

import "sallyport.dev/sallyport/internal/checks"

// What each leaf tells the schema. A schema's patterns say what they can; the reader has the last word.

func stringSchema(pattern string, low, high int) object {
	s := object{"type": "string", "minLength": low, "maxLength": high}
	if pattern != "" {
		s["pattern"] = pattern
	}
	return s
}

func enumSchema(names []string) object { return object{"type": "string", "enum": names} }

func listSchema(items object) object {
	return object{"type": "array", "items": items, "uniqueItems": true}
}

func choiceSchema(items object, words ...string) object {
	return object{"oneOf": []object{enumSchema(words), listSchema(items)}}
}

func (v *version) schema() object  { return object{"const": 1} }
func (v *text) schema() object     { return stringSchema("", 1, maxText) }
func (v *argument) schema() object { return stringSchema("", 0, maxText) }
func (v *duration) schema() object { return stringSchema(durationForm.String(), 2, 64) }
func (v *size) schema() object     { return stringSchema(sizeForm.String(), 4, 20) }
func (v *pids) schema() object {
	return object{"type": "integer", "minimum": 1, "maximum": maxPIDs}
}
func (v *cpus) schema() object {
	return object{"type": "number", "minimum": 0.01, "maximum": maxCPUs}
}
func (v *attempts) schema() object {
	return object{"type": "integer", "minimum": 1, "maximum": maxAttempts}
}
func (v *history) schema() object {
	return object{"oneOf": []object{
		{"type": "integer", "minimum": 1, "maximum": 1_000_000},
		{"type": "string", "pattern": `^(full|[1-9][0-9]{0,6})$`},
	}}
}
func (v *nameText) schema() object  { return stringSchema(nameForm.String(), 1, maxName) }
func (v *checkName) schema() object { return stringSchema(checkForm.String(), 1, maxName) }
func (v *revision) schema() object  { return stringSchema(`^[^-\s]\S*$`, 1, 255) }
func (v *glob) schema() object      { return stringSchema(`^[^/~!]`, 1, maxGlob) }
func (v *relative) schema() object  { return stringSchema(`^[^/~]`, 1, 1024) }
func (v *toolPath) schema() object  { return stringSchema(`^(/|~/).+$`, 2, 1024) }
func (v *cacheName) schema() object { return enumSchema(KnownCaches()) }
func (v *layerName) schema() object { return enumSchema(layerNames()) }
func (v *refName) schema() object   { return stringSchema(refRule.String(), 1, 200) }
func (v *agentName) schema() object { return stringSchema(checkForm.String(), 1, maxName) }
func (v *publishTo) schema() object { return enumSchema(publishWords) }
func (v *approverCount) schema() object {
	return object{"type": "integer", "minimum": 1, "maximum": maxApprovers}
}
func (v *repositoryURL) schema() object { return stringSchema(addressForm.String(), 8, 910) }
func (v *approve) schema() object       { return enumSchema(approveWords) }
func (v *grantRule) schema() object     { return enumSchema(grantWords) }

func (v *fileName) schema() object       { return (*relative)(nil).schema() }
func (v *onBase) schema() object         { return enumSchema(baseWords) }
func (v *newTestsOnBase) schema() object { return enumSchema([]string{"fail"}) }
func (v *plantedFault) schema() object   { return (*relative)(nil).schema() } // "auto" has the form of a path
func (v *yes) schema() object            { return object{"type": "boolean"} }
func (v *reportFormat) schema() object   { return enumSchema(checks.Formats()) }
func (v *minTests) schema() object {
	return object{"type": "integer", "minimum": 1, "maximum": maxMinTests}
}
func (v *retries) schema() object {
	return object{"type": "integer", "minimum": 0, "maximum": maxRetries}
}
func (v *parallel) schema() object {
	return object{"type": "integer", "minimum": 1, "maximum": maxParallel}
}
func (m *severityMap) schema() object {
	return object{"type": "object", "propertyNames": object{"pattern": ruleForm.String()}, "additionalProperties": enumSchema(severityWords)}
}

func (c *toolsChoice) schema() object {
	return choiceSchema(orAuto((*toolPath)(nil).schema()), "auto", "none")
}
func (c *cachesChoice) schema() object {
	return choiceSchema(orAuto((*cacheName)(nil).schema()), "auto", "none")
}
func (l *extraTools) schema() object { return listSchema(orAuto((*toolPath)(nil).schema())) }

// orAuto is an entry of a list in which auto may stand.
func orAuto(item object) object       { return object{"oneOf": []object{{"const": "auto"}, item}} }
func (l *requireList) schema() object { return choiceSchema((*layerName)(nil).schema(), "all") }
func (m *envMap) schema() object {
	return object{"type": "object", "propertyNames": object{"pattern": envForm.String(), "not": object{"pattern": "^(PATH$|HOME$|LD_|GIT_|SALLYPORT_)"}},
		"additionalProperties": (*argument)(nil).schema()}
}
