import type { ListProblemsRequest, ListProblemsResponse } from "@diskmesh/api/director";
import { parseName } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { TaskContext } from "../context.js";
import { requireDeployment } from "../model/recorded-deployments.js";
import { problemKey } from "../model/schema.js";
import { encodeProblem } from "../wire.js";

export async function listProblems(
  { lists }: TaskContext,
  request: ListProblemsRequest,
  call: CallContext,
): Promise<ListProblemsResponse> {
  const deployment = parseName("deployment", request.deployment);
  const { items, nextPageToken } = await lists.page(request, call, {
    what: "problems",
    begin: (tables) => {
      requireDeployment(tables, deployment);
      return tables.problems.snapshot("byDeployment", deployment);
    },
    keyOf: ({ problemId }) => problemKey(problemId),
    matches: ({ open }) => open,
    describe: (_, problem) => encodeProblem(problem),
  });
  return { problems: [...items], nextPageToken };
}
