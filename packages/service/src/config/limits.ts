import { DEFAULT_RPC_SERVER_LIMITS, type RpcServerLimits } from "@diskmesh/rpc";
import * as z from "zod";
import { durationMsConfig, groupConfig } from "./pieces.js";

const count = z.int().min(1).max(1_000_000);

/** Limits of the gRPC server; all have defaults, of which a service may have its own. */
export function rpcLimitsConfig(defaults: Partial<RpcServerLimits> = {}) {
  const byDefault = { ...DEFAULT_RPC_SERVER_LIMITS, ...defaults };
  return groupConfig("Limits of the gRPC server.", {
    maxMessageBytes: z
      .int()
      .min(1024)
      .max(1_073_741_824)
      .default(byDefault.maxMessageBytes)
      .describe("The longest message that is received or sent."),
    maxConcurrentCalls: count
      .default(byDefault.maxConcurrentCalls)
      .describe(
        "Calls served at once, streams aside; more are refused with RESOURCE_EXHAUSTED. A tenth is kept for a registry's orders, a tenth for what agents report, and a tenth for operators who look.",
      ),
    maxCallsPerPeer: count.default(byDefault.maxCallsPerPeer).describe("Of them, calls of one operator or agent."),
    maxConcurrentStreams: count
      .default(byDefault.maxConcurrentStreams)
      .describe("Streams served at once. When there is no room the one that idles longest ends."),
    maxStreamsPerPeer: count
      .default(byDefault.maxStreamsPerPeer)
      .describe("Of them, streams of one operator or agent."),
    minStreamIdleMs: durationMsConfig
      .default(byDefault.minStreamIdleMs)
      .describe("A stream on which nothing came or went for so long may be ended for another."),
    firstMessageTimeoutMs: durationMsConfig
      .default(byDefault.firstMessageTimeoutMs)
      .describe("Time until the first message of a call or stream must have come whole."),
    maxSilentStreamsPerPeer: count
      .default(byDefault.maxSilentStreamsPerPeer)
      .describe("Calls and streams of one peer whose first message has not come; the oldest ends for a further one."),
    maxConnections: count.default(byDefault.maxConnections).describe("Connections at once; more are cut at once."),
    maxConnectionsPerAddress: count
      .default(byDefault.maxConnectionsPerAddress)
      .describe("Of them, connections from one address."),
    reservedDescriptors: z
      .int()
      .min(0)
      .max(1_000_000)
      .default(64)
      .describe("Descriptors of the process that no new connection may take; a quarter of all at most."),
    maxHandshakes: count
      .default(byDefault.maxHandshakes)
      .describe("TLS handshakes under way at once; more wait for their turn."),
    maxHandshakesPerAddress: count
      .default(byDefault.maxHandshakesPerAddress)
      .describe("Of them, handshakes with one address."),
    handshakeTimeoutMs: durationMsConfig
      .default(byDefault.handshakeTimeoutMs)
      .describe("Time for a whole TLS handshake, while the process was not too busy to answer."),
    maxConnectionAgeMs: durationMsConfig
      .default(byDefault.maxConnectionAgeMs)
      .describe("A connection that is older is ended after its calls; a tenth earlier or later, at random."),
    connectionAgeGraceMs: durationMsConfig
      .default(byDefault.connectionAgeGraceMs)
      .describe("How long its streams may then go on."),
    defaultDeadlineMs: durationMsConfig
      .default(byDefault.defaultDeadlineMs)
      .describe("Time for a call whose client set no deadline. Streams may last until their client ends them."),
    maxDeadlineMs: durationMsConfig
      .default(byDefault.maxDeadlineMs)
      .describe("The longest deadline that a client may set for a call that is no stream."),
    drainTimeoutMs: durationMsConfig
      .default(byDefault.drainTimeoutMs)
      .describe("How long a stop waits for calls under way."),
  });
}

const pagedCount = z.int().min(1).max(10_000_000);

/** Limits of lists that are answered page by page; all have defaults. */
export const pagingConfig = groupConfig("Lists that are answered page by page.", {
  defaultPageSize: pagedCount.default(100).describe("Things on a page whose caller does not say how many."),
  maxPageSize: pagedCount.default(1_000).describe("Things on a page whose caller asks for more."),
  maxScannedPerPage: pagedCount
    .default(100_000)
    .describe("Things looked at for one page of a filtered list: a page may be short, or empty, and have a next one."),
  maxKeptLists: pagedCount
    .default(1_000)
    .describe(
      "Lists that were begun and not read to their end; beyond it the oldest of whoever has the most must begin again.",
    ),
  maxKeptChanges: pagedCount
    .default(200_000)
    .describe(
      "Documents that may change while a list is read, before it must begin again: so many former ones of 1 KiB or so may stay in memory for lists.",
    ),
});
