import type { WatchHostsRequest, WatchHostsResponse } from "@diskmesh/api/registry";
import type { CallContext } from "@diskmesh/rpc";
import type { Context } from "../../calls/context.js";
import { describeHost } from "../../calls/device-description.js";
import { watch } from "../../calls/watch.js";
import { parseHostFilter } from "../../requests/host-filter.js";

export async function* watchHosts(
  context: Context,
  request: WatchHostsRequest,
  call: CallContext,
): AsyncGenerator<WatchHostsResponse> {
  const { az, matches } = parseHostFilter(request);
  yield* watch(context, request, call, {
    what: "hosts",
    candidates: ({ hosts }, page) => (az === undefined ? hosts.entries(page) : hosts.by("byAz", az, page)),
    get: ({ hosts }, hostId) => hosts.get(hostId),
    keyOf: (host) => host.hostId,
    matches,
    mayHaveMatched: () => true,
    changed: (tables, host) => ({ $case: "host" as const, value: describeHost(context, tables, host) }),
    removed: (hostId) => ({ $case: "removedHostId" as const, value: hostId }),
  });
}
