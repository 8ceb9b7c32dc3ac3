import type { ListHostsRequest, ListHostsResponse } from "@diskmesh/api/registry";
import { parseId } from "@diskmesh/domain";
import { pageOf } from "@diskmesh/rpc";
import type { Context } from "../../calls/context.js";
import { describeHost } from "../../calls/device-description.js";
import { massSilenceNow } from "../../model/hosts/vigil.js";
import { parseHostFilter } from "../../requests/host-filter.js";
import { massSilenceMessage } from "../../requests/wire.js";

export async function listHosts(context: Context, request: ListHostsRequest): Promise<ListHostsResponse> {
  const { az, matches } = parseHostFilter(request);
  const vmCid = request.vmCid === "" ? undefined : parseId("vm_cid", request.vmCid);
  const { items, nextPageToken } = await pageOf(context.tablet, request, {
    what: "hosts",
    rows: ({ hosts }, from) => {
      if (vmCid !== undefined) return hosts.by("byVm", vmCid, from);
      return az === undefined ? hosts.entries(from) : hosts.by("byAz", az, from);
    },
    keyOf: (host) => host.hostId,
    matches,
    describe: (tables, host) => describeHost(context, tables, host),
  });
  const silence = await context.tablet.read((tables) => massSilenceNow(tables, context.liveness.whySuspected));
  const serverTime = new Date(context.clock.nowMs());
  return { hosts: [...items], nextPageToken, massSilence: silence && massSilenceMessage(silence), serverTime };
}
