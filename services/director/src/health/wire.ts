import type { Problem as WireProblem } from "@diskmesh/api/director";
import type { Problem } from "../store/problem.js";
import { defaultResolution, planOf, resolutionsOf } from "./problem.js";

export function encodeProblem(problem: Problem): WireProblem {
  const { problemId, deployment, type, description, group, instanceId, vmCid, diskCid, foundAtMs, outcome } = problem;
  return {
    problemId,
    deployment,
    type,
    description,
    instanceGroup: group,
    instanceId,
    vmCid,
    diskCid,
    resolutions: resolutionsOf(problem).map((name) => ({ name, plan: planOf(name) })),
    defaultResolution: defaultResolution(problem),
    detectTime: new Date(foundAtMs),
    lastError: outcome,
  };
}
