import type { ListHostsRequest, ListHostsResponse } from "@diskmesh/api/registry";
import { parseId, parseOptionalName } from "@diskmesh/domain";
import type { Context } from "../context.js";
import { describeHost } from "../requests/device-description.js";
import { parsePage, takePage } from "../requests/paging.js";

export async function listHosts(context: Context, request: ListHostsRequest): Promise<ListHostsResponse> {
  const { tablet, config } = context;
  const az = parseOptionalName("az", request.az);
  const vmCid = request.vmCid === "" ? undefined : parseId("vm_cid", request.vmCid);
  const page = parsePage(request, config.paging);
  const found = await tablet.read(({ hosts }) => {
    const ofAz = () => (az === undefined ? hosts.entries(page) : hosts.by("byAz", az, page));
    const candidates = vmCid === undefined ? ofAz() : hosts.by("byVm", vmCid, page);
    return takePage(
      candidates,
      (host) => host.hostId,
      (host) => az === undefined || host.az === az,
      page,
      config.paging,
    );
  });
  const hosts = found.items.map((host) => describeHost(context, host));
  return { hosts, nextPageToken: found.nextPageToken };
}
