import { ResurrectionServiceDefinition } from "@diskmesh/api/director";
import { type Client, createClient } from "@diskmesh/rpc";
import type { DirectorLimits } from "../config/limits.js";
import { TestDirector } from "./test-director.js";

export interface ResurrectingDirector {
  readonly director: TestDirector;
  readonly resurrection: Client<typeof ResurrectionServiceDefinition>;
}

/** Starts a director that checks silent VMs every 100 ms, with agents that send a heartbeat every 200 ms. */
export async function startResurrecting(
  resurrection: Partial<DirectorLimits["resurrection"]> & { readonly enabled?: boolean },
  hostIds: readonly string[],
): Promise<ResurrectingDirector> {
  const { enabled = false, ...times } = resurrection;
  const agents = { requestTimeoutMs: 2_000, attachTimeoutMs: 15_000, detachTimeoutMs: 500, lostAfterMs: 2_000 };
  const tuning = { agents, resurrection: { checkIntervalMs: 100, ...times } };
  const director = await TestDirector.start(
    { agents: { readyTimeoutMs: 30_000 }, resurrection: { enabled }, tuning },
    { hostIds },
  );
  for (const agent of director.agents) {
    agent.heartbeatIntervalMs = 200;
    await agent.stop();
    await agent.start();
  }
  const client = createClient(ResurrectionServiceDefinition, {
    address: director.address,
    tls: director.certs.files("operator"),
    serverRole: "director",
    defaultDeadlineMs: 20_000,
  });
  return { director, resurrection: client };
}
