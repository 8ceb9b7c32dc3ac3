import type { RenewCertificateRequest, RenewCertificateResponse } from "@diskmesh/api/internal";
import { formatIdentity, NotFoundError, parseHostId } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import { requireOwnHost } from "../../calls/agent-identity.js";
import type { Context } from "../../calls/context.js";
import { renew } from "../../model/joins/join-tokens.js";
import { certify } from "./certify.js";

export async function renewCertificate(
  context: Context,
  request: RenewCertificateRequest,
  call: CallContext,
): Promise<RenewCertificateResponse> {
  const hostId = parseHostId(request.hostId);
  requireOwnHost(context, call, hostId);
  const { tablet, clock } = context;
  const isKnown = await tablet.read((tables) => tables.hosts.has(hostId));
  if (!isKnown) throw new NotFoundError(`no host ${hostId}: it must register before its certificate is renewed`);
  const certificate = await certify(context, {
    hostId,
    signingRequest: request.signingRequest,
    event: { user: formatIdentity(call.identity), action: "RenewCertificate" },
    decide: (tx, _, signed) => {
      renew(tx, hostId, signed, clock.nowMs());
      return true;
    },
  });
  return { certificate };
}
