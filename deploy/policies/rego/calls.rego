package refunds

import rego.v1

# Undefined is a deny of the runtime's; this one tells why.
default verdict := {"decision": "deny", "reason": "policy:no-rule", "message": "No rule permits this."}

call := input.snapshot.tool_call

# In Rego everything can be compared with everything, null with a number: say what it must be.
amount := call.args.amount if is_number(call.args.amount)

limit := call.args.limit if is_number(call.args.limit)

verdict := {
	"decision": "deny",
	"reason": "policy:no-service-refunds",
	"message": "Refunds are made on behalf of a person.",
} if {
	call.name == "refund"
	not input.snapshot.actor.kind == "human"
} else := {
	"decision": "escalate",
	"reason": "policy:large-refund",
	"message": "A refund of more than 100. Approve if the order was paid and came back.",
} if {
	call.name == "refund"
	amount > data.limits.alone
} else := {"decision": "allow"} if {
	call.name == "refund"
	amount > 0
} else := {
	"decision": "transform",
	"reason": "policy:search-size",
	"transform": {"path": "$target.limit", "value": data.limits.orders},
} if {
	call.name == "search_orders"
	limit > data.limits.orders
} else := {"decision": "allow"} if {
	call.name == "search_orders"
	limit <= data.limits.orders
} else := {"decision": "allow"} if {
	call.name in data.limits.reading
}
