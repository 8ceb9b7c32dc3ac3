import type {
  GetResurrectionResponse,
  ListProblemsRequest,
  ListProblemsResponse,
  ProblemServiceDefinition,
  UpdateResurrectionRequest,
  UpdateResurrectionResponse,
} from "@diskmesh/api/director";
import { InvalidArgumentError, parseName } from "@diskmesh/domain";
import { type CallContext, type Handlers, pageOf, type Serve } from "@diskmesh/rpc";
import { askerOf } from "../audit/asker.js";
import { requireDeployment } from "../instances/recorded-deployments.js";
import { problemKey } from "../store/schema.js";
import type { TaskContext } from "../tasks/context.js";
import { taskMethod } from "../tasks/task-method.js";
import type { HealthContext } from "./context.js";
import { checkAnswers } from "./problem.js";
import { decideResurrections, watchedVms } from "./resurrection.js";
import { EVERYWHERE, scopeOf } from "./resurrection-switch.js";
import { encodeProblem, parseResolution } from "./wire.js";

export async function getResurrection({
  tablet,
  config,
  limits,
  configs,
  agentHealths,
  clock,
}: HealthContext): Promise<GetResurrectionResponse> {
  const silentMsOf = (agentId: string) => agentHealths.shown(agentId).silentMs;
  const nowMs = clock.nowMs();
  return tablet.read((tables) => {
    const watched = watchedVms(tables, silentMsOf, configs.resurrection.wishes(tables), nowMs);
    const verdicts = decideResurrections(watched, limits.resurrection);
    const switches = [...tables.resurrectionSwitches.entries()].filter(({ scope }) => scope !== EVERYWHERE);
    return {
      enabled: tables.resurrectionSwitches.get(EVERYWHERE)?.isOn ?? config.resurrection.enabled,
      switches: switches.map(({ scope, isOn: enabled }) => {
        const [deployment = "", group = ""] = scope.split(" ");
        return { deployment, group, enabled };
      }),
      silentVms: verdicts.map((verdict) => {
        const { deployment, group, instanceId, vmCid, agentId } = verdict.instance;
        const silenceStartTime = new Date(nowMs - silentMsOf(agentId));
        const heldBecause = verdict.do === "hold" ? verdict.because : "";
        return { deployment, group, instanceId, vmCid, silenceStartTime, heldBecause };
      }),
    };
  });
}

export async function listProblems(
  { tablet }: TaskContext,
  request: ListProblemsRequest,
): Promise<ListProblemsResponse> {
  const deployment = parseName("deployment", request.deployment);
  const { items, nextPageToken } = await pageOf(tablet, request, {
    what: "problems",
    rows: (tables, from) => {
      requireDeployment(tables, deployment);
      return tables.problems.by("byDeployment", deployment, from);
    },
    keyOf: ({ problemId }) => problemKey(problemId),
    matches: ({ open }) => open,
    describe: (_, problem) => encodeProblem(problem),
  });
  return { problems: [...items], nextPageToken };
}

type Service = Handlers<typeof ProblemServiceDefinition>;
type Name = "scanDeployment" | "resolveProblems";

/** Methods that start a task on a deployment's problems. */
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
    const answers = request.answers.map((each) => ({ ...each, resolution: parseResolution(each.resolution) }));
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

export async function updateResurrection(
  { tablet, events }: TaskContext,
  { wanted }: UpdateResurrectionRequest,
  call: CallContext,
): Promise<UpdateResurrectionResponse> {
  if (wanted === undefined)
    throw new InvalidArgumentError("wanted is missing: give the setting to change", { about: { field: "wanted" } });
  const { enabled: isOn } = wanted;
  const deployment = wanted.deployment === "" ? "" : parseName("deployment", wanted.deployment);
  if (deployment === "" && wanted.group !== "")
    throw new InvalidArgumentError("group is given without deployment: name the group's deployment, too", {
      about: { field: "wanted.deployment" },
    });
  const group = wanted.group === "" ? "" : parseName("group", wanted.group);
  const scope = deployment === "" ? EVERYWHERE : scopeOf(deployment, group);
  const deed = { action: isOn ? "enable" : "disable", objectType: "resurrection", objectName: scope };
  await tablet.transact((tx) => {
    if (deployment !== "") requireDeployment(tx, deployment);
    tx.resurrectionSwitches.put({ scope, isOn });
    events.note(tx, deed, askerOf(call), { deployment });
  });
  return {};
}
