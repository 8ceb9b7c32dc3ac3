import type { ForgetAgentAuthorityRequest, ForgetAgentAuthorityResponse } from "@diskmesh/api/director";
import { parseId } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { AgentContext } from "../context.js";
import { forgetAuthority } from "../model/agent-authorities.js";
import { askerOf } from "../workers/tasks.js";

/** Of those that are left behind. */
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
