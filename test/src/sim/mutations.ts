import type { Mutation } from "./mutation.js";
import { AGENT_MUTATIONS } from "./mutations-agent.js";
import { HOLDER_MUTATIONS } from "./mutations-copy-holder.js";
import { COPY_LOSS_MUTATIONS } from "./mutations-copy-losses.js";
import { COPY_REGISTRY_MUTATIONS } from "./mutations-copy-registry.js";
import { HOST_MUTATIONS } from "./mutations-hosts.js";
import { MOVE_MUTATIONS } from "./mutations-moves.js";
import { REGISTRY_MUTATIONS } from "./mutations-registry.js";
import { REWIND_MUTATIONS } from "./mutations-rewinds.js";
import { SLICE_MUTATIONS } from "./mutations-slices.js";

/**
 * All mutations. Their files import only types of the modules that they replace, because these must be loaded after the
 * switch.
 */
export const MUTATIONS: readonly Mutation[] = [
  ...AGENT_MUTATIONS,
  ...REGISTRY_MUTATIONS,
  ...HOST_MUTATIONS,
  ...REWIND_MUTATIONS,
  ...MOVE_MUTATIONS,
  ...SLICE_MUTATIONS,
  ...HOLDER_MUTATIONS,
  ...COPY_REGISTRY_MUTATIONS,
  ...COPY_LOSS_MUTATIONS,
];

export function findMutation(name: string): Mutation {
  const mutation = MUTATIONS.find((each) => each.name === name);
  if (mutation === undefined) throw new Error(`there is no mutation ${JSON.stringify(name)}: see --list-mutations`);
  return mutation;
}
