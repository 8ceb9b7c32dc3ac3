import type { ListAgentCertificatesRequest, ListAgentCertificatesResponse } from "@diskmesh/api/director";
import { parseOptionalName } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { AgentContext } from "../context.js";
import type { Instance } from "../model/instance.js";
import { encodeAgentCertificate } from "../wire-certificates.js";

export async function listAgentCertificates(
  { lists, agentCertificates, clock }: AgentContext,
  request: ListAgentCertificatesRequest,
  call: CallContext,
): Promise<ListAgentCertificatesResponse> {
  const deployment = parseOptionalName("deployment", request.deployment);
  const trust = agentCertificates?.trust;
  const { items, nextPageToken } = await lists.page(request, call, {
    what: "certificates of agents",
    begin: ({ instances }) => instances.snapshot(),
    keyOf: ({ instanceId }) => instanceId,
    matches: (instance: Instance) =>
      instance.agentKeys !== undefined && (deployment === undefined || instance.deployment === deployment),
    describe: (_, instance) => encodeAgentCertificate(instance, trust, clock.nowMs()),
  });
  return { certificates: [...items], nextPageToken };
}
