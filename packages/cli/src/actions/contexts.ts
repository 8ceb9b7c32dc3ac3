import { contextNames, contextsFolder, readContext } from "../mesh/contexts.js";
import type { Columns } from "../output/output.js";
import type { Action } from "./action.js";

interface Context {
  readonly name: string;
  readonly isUsed: boolean;
  readonly director: string;
  readonly registry: string;
}

const COLUMNS: Columns<Context> = {
  used: ({ isUsed }) => (isUsed ? "*" : ""),
  context: ({ name }) => name,
  director: ({ director }) => director,
  registry: ({ registry }) => registry,
};

export const contexts: Action = {
  usage: "contexts",
  summary: "list the contexts: the meshes of which ~/.config/diskmesh has a file NAME.env",
  example: "diskmesh contexts",
  run: async ({ output, environment }) => {
    const found = contextNames(environment).map((name): Context => {
      const variables = readContext(name, environment);
      const { DISKMESH_DIRECTOR: director = "", DISKMESH_REGISTRY: registry = "" } = variables;
      return { name, isUsed: environment.DISKMESH_CONTEXT === name, director, registry };
    });
    output.list(COLUMNS, found, `no files NAME.env in ${contextsFolder(environment)}`);
  },
};
