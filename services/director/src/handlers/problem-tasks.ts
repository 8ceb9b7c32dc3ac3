import type { ProblemServiceDefinition } from "@diskmesh/api/director";
import { InvalidArgumentError, parseName } from "@diskmesh/domain";
import type { Handlers, Serve } from "@diskmesh/rpc";
import type { TaskContext } from "../context.js";
import { checkAnswers } from "../model/problem.js";
import { requireDeployment } from "../model/recorded-deployments.js";
import { problemKey } from "../model/schema.js";
import { taskMethod } from "./task-method.js";

type Service = Handlers<typeof ProblemServiceDefinition>;
type Name = "scanDeployment" | "resolveProblems";

/** Each method that starts a task on a deployment's problems. */
export const problemTasks: { readonly [Method in Name]: Serve<TaskContext, Service[Method]> } = {
  scanDeployment: taskMethod("normal", (request) => {
    const deployment = parseName("deployment", request.deployment);
    return {
      job: { type: "scan_deployment", deployment },
      description: `scan deployment \`${deployment}\``,
      deployment,
      check: (tables) => requireDeployment(tables, deployment),
    };
  }),
  resolveProblems: taskMethod("normal", ({ auto, ...request }) => {
    const deployment = parseName("deployment", request.deployment);
    const answers = request.answers.map(({ problemId, resolution }) => ({ problemId, resolution }));
    const about = { about: { field: "answers" } };
    if (answers.length === 0 && !auto)
      throw new InvalidArgumentError("answers is empty: name problems, or set auto", about);
    if (new Set(answers.map(({ problemId }) => problemId)).size < answers.length)
      throw new InvalidArgumentError("answers names a problem twice", about);
    return {
      job: { type: "resolve_problems", deployment, answers, auto },
      description: `resolve problems of deployment \`${deployment}\``,
      deployment,
      check: (tables) => {
        requireDeployment(tables, deployment);
        checkAnswers(deployment, answers, (id) => (id > 0 ? tables.problems.get(problemKey(id)) : undefined));
      },
    };
  }),
};
