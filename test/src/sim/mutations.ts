import { readFileSync } from "node:fs";
import { join } from "node:path";
import { repositoryFolder } from "../repository-folder.js";
import type { Mutation } from "./mutation.js";
import { AGENT_MUTATIONS } from "./mutations-agent.js";
import { REGISTRY_MUTATIONS } from "./mutations-registry.js";
import { REWIND_MUTATIONS } from "./mutations-rewinds.js";

/**
 * The mistakes are made in the built files as they are loaded: the services know nothing of them, and one whose text has
 * changed so that it no longer applies is reported as an error.
 */
export const MUTATIONS: readonly Mutation[] = [...AGENT_MUTATIONS, ...REGISTRY_MUTATIONS, ...REWIND_MUTATIONS];

export function findMutation(name: string): Mutation {
  const mutation = MUTATIONS.find((each) => each.name === name);
  if (mutation === undefined) throw new Error(`there is no mutation ${JSON.stringify(name)}: see --list-mutations`);
  return mutation;
}

/** Throws when the code has changed so that the mistake cannot be made there any more. */
export function requireApplicable(mutation: Mutation): void {
  for (const { file, find, count = 1 } of mutation.edits) {
    const found = readFileSync(join(repositoryFolder, file), "utf8").split(find).length - 1;
    if (found !== count)
      throw new Error(
        `mutation ${mutation.name} no longer applies: ${JSON.stringify(find)} is ${found} times in ${file}, not ${count}: adapt it to the code`,
      );
  }
}
