import type { ForgetAgentAuthorityRequest, ForgetAgentAuthorityResponse } from "@diskmesh/api/director";
import { parseId } from "@diskmesh/domain";
import type { Context } from "../context.js";
import { forgetAuthority } from "../model/agent-authorities.js";

export async function forgetAgentAuthority(
  { tablet, agentCertificates }: Context,
  request: ForgetAgentAuthorityRequest,
): Promise<ForgetAgentAuthorityResponse> {
  const id = parseId("authority_id", request.authorityId);
  const leftBehind = request.leftBehind.map((agentId) => parseId("left_behind", agentId));
  const signing = agentCertificates?.trust.authority ?? "";
  await tablet.transact((tx) => forgetAuthority(tx, { id, signing, leftBehind }));
  return {};
}
