package publisher

// approved demands that as many people as the target says have approved exactly this, by keys that this Publisher pins:
// Mission Control cannot make an approval.
func (p *Publisher) approved(o *order, blobs []string) error {
	if o.target.Approvers.Count == 0 {
		return nil
	}
	return no("approvals", "%d are needed at this target, and none can be verified yet", o.target.Approvers.Count)
}
