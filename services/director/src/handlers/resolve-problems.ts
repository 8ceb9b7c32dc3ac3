import type { ResolveProblemsRequest, ResolveProblemsResponse } from "@diskmesh/api/director";
import { InvalidArgumentError, parseName } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { Context } from "../context.js";
import { checkAnswers } from "../model/problem.js";
import { requireDeployment } from "../model/recorded-deployments.js";
import { problemKey } from "../model/schema.js";
import { encodeTask } from "../wire.js";
import { startTask } from "./start-task.js";

export async function resolveProblems(
  context: Context,
  request: ResolveProblemsRequest,
  call: CallContext,
): Promise<ResolveProblemsResponse> {
  const deployment = parseName("deployment", request.deployment);
  const { auto } = request;
  const answers = request.answers.map(({ problemId, resolution }) => ({ problemId, resolution }));
  const about = { about: { field: "answers" } };
  if (answers.length === 0 && !auto)
    throw new InvalidArgumentError("answers is empty: name problems, or set auto", about);
  if (new Set(answers.map(({ problemId }) => problemId)).size < answers.length)
    throw new InvalidArgumentError("answers names a problem twice", about);
  const task = await startTask(context, call, request.wait, {
    job: { type: "resolve_problems", deployment, answers, auto },
    queue: "normal",
    description: `resolve problems of deployment \`${deployment}\``,
    deployment: () => deployment,
    check: (tables) => {
      requireDeployment(tables, deployment);
      const problemNamed = (problemId: number) =>
        problemId > 0 ? tables.problems.get(problemKey(problemId)) : undefined;
      checkAnswers(deployment, answers, problemNamed);
    },
  });
  return { task: encodeTask(task) };
}
