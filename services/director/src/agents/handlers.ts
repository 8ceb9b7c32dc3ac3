import type {
  ForgetAgentAuthorityRequest,
  ForgetAgentAuthorityResponse,
  ListAgentAuthoritiesRequest,
  ListAgentAuthoritiesResponse,
  ListAgentCertificatesRequest,
  ListAgentCertificatesResponse,
} from "@diskmesh/api/director";
import { parseId, parseOptionalName } from "@diskmesh/domain";
import { type CallContext, pageOf, pageOfItems } from "@diskmesh/rpc";
import { askerOf } from "../audit/asker.js";
import type { RecordedAuthority } from "../store/agent-authority.js";
import type { Instance } from "../store/instance.js";
import { agentsByAuthority, forgetAuthority } from "./agent-authorities.js";
import type { AgentContext } from "./context.js";
import { encodeAgentAuthority, encodeAgentCertificate } from "./wire.js";

/** Maximum number of agents that an audit event names. */
const MAX_NAMED = 16;

export async function forgetAgentAuthority(
  { tablet, agentCertificates, events }: AgentContext,
  request: ForgetAgentAuthorityRequest,
  call: CallContext,
): Promise<ForgetAgentAuthorityResponse> {
  const id = parseId("authority_id", request.authorityId);
  const leftBehind = request.leftBehind.map((agentId) => parseId("left_behind", agentId));
  const signing = agentCertificates?.trust.authority ?? "";
  await tablet.transact((tx) => {
    forgetAuthority(tx, { id, signing, leftBehind });
    const context = { left_behind: leftBehind.slice(0, MAX_NAMED).join(", ") };
    events.note(tx, { action: "forget", objectType: "agent_authority", objectName: id }, askerOf(call), { context });
  });
  return {};
}

const TIME_DIGITS = 16;
const placeOf = ({ sinceMs, id }: RecordedAuthority) => `${String(sinceMs).padStart(TIME_DIGITS, "0")} ${id}`;

export function listAgentAuthorities(
  { tablet, agentCertificates }: AgentContext,
  request: ListAgentAuthoritiesRequest,
): Promise<ListAgentAuthoritiesResponse> {
  return tablet.read((tables) => {
    const agents = agentsByAuthority(tables);
    const oldestFirst = [...tables.agentAuthorities.entries()].sort((a, b) => (placeOf(a) < placeOf(b) ? -1 : 1));
    const signing = agentCertificates?.trust.authority;
    const { items, nextPageToken } = pageOfItems(request, oldestFirst, { what: "authorities", keyOf: placeOf });
    return {
      nextPageToken,
      authorities: items.map((each) =>
        encodeAgentAuthority(each, { signs: each.id === signing, agents: agents.get(each.id) ?? 0 }),
      ),
    };
  });
}

export async function listAgentCertificates(
  { tablet, agentCertificates, clock }: AgentContext,
  request: ListAgentCertificatesRequest,
): Promise<ListAgentCertificatesResponse> {
  const deployment = parseOptionalName("deployment", request.deployment);
  const trust = agentCertificates?.trust;
  const { items, nextPageToken } = await pageOf(tablet, request, {
    what: "certificates of agents",
    rows: ({ instances }, from) => instances.entries(from),
    keyOf: ({ instanceId }) => instanceId,
    matches: (instance: Instance) =>
      instance.agentKeys !== undefined && (deployment === undefined || instance.deployment === deployment),
    describe: (_, instance) => encodeAgentCertificate(instance, trust, clock.nowMs()),
  });
  return { certificates: [...items], nextPageToken };
}
