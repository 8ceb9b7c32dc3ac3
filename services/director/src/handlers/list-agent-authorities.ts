import type { ListAgentAuthoritiesRequest, ListAgentAuthoritiesResponse } from "@diskmesh/api/director";
import type { AgentContext } from "../context.js";
import { agentsByAuthority } from "../model/agent-authorities.js";
import { encodeAgentAuthority } from "../wire-certificates.js";

export function listAgentAuthorities(
  { tablet, agentCertificates }: AgentContext,
  _request: ListAgentAuthoritiesRequest,
): Promise<ListAgentAuthoritiesResponse> {
  return tablet.read((tables) => {
    const agents = agentsByAuthority(tables);
    const oldestFirst = [...tables.agentAuthorities.entries()].sort((a, b) => a.sinceMs - b.sinceMs);
    const signing = agentCertificates?.trust.authority;
    return {
      authorities: oldestFirst.map((each) =>
        encodeAgentAuthority(each, { signs: each.id === signing, agents: agents.get(each.id) ?? 0 }),
      ),
    };
  });
}
