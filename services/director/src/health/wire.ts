import { ProblemResolutionType, ProblemType, type Problem as WireProblem } from "@diskmesh/api/director";
import { InvalidArgumentError } from "@diskmesh/domain";
import { PLANS, type Problem, type Resolution } from "../store/problem.js";
import { defaultResolution, planOf, resolutionsOf } from "./problem.js";

export function encodeProblem(problem: Problem): WireProblem {
  const { problemId, deployment, type, description, group, instanceId, vmCid, diskCid, foundAtMs, outcome } = problem;
  return {
    problemId,
    deployment,
    type: ProblemType[type.toUpperCase() as Uppercase<typeof type>],
    description,
    instanceGroup: group,
    instanceId,
    vmCid,
    diskCid,
    resolutions: resolutionsOf(problem).map((name) => ({ type: resolutionType(name), plan: planOf(name) })),
    defaultResolution: resolutionType(defaultResolution(problem)),
    detectTime: new Date(foundAtMs),
    lastError: outcome,
  };
}

function resolutionType(name: Resolution): ProblemResolutionType {
  return ProblemResolutionType[name.toUpperCase() as Uppercase<Resolution>];
}

/** Returns the resolution with BOSH's name; undefined for an unknown name. */
export function resolutionNamed(name: string): ProblemResolutionType | undefined {
  return Object.hasOwn(PLANS, name) ? resolutionType(name as Resolution) : undefined;
}

/** Returns the stored form of a resolution: its name, or "" for the default. */
export function parseResolution(type: ProblemResolutionType): Resolution | "" {
  if (type === ProblemResolutionType.UNSPECIFIED) return "";
  const name = (Object.keys(PLANS) as Resolution[]).find((each) => resolutionType(each) === type);
  if (name !== undefined) return name;
  throw new InvalidArgumentError("answers has a resolution that this director does not know", {
    about: { field: "answers" },
  });
}
