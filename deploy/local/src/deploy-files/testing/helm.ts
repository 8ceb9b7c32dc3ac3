import { spawnSync } from "node:child_process";
import { skipBecause } from "@diskmesh/testkit";
import { parseAllDocuments } from "yaml";
import { chart } from "./chart-files.js";

interface Port {
  readonly name: string;
  readonly containerPort: number;
}

interface Probe {
  readonly httpGet?: { readonly host?: string; readonly port: number; readonly path: string };
}

export interface Container {
  readonly name: string;
  readonly image: string;
  readonly command?: readonly string[];
  readonly args?: readonly string[];
  readonly env?: readonly { readonly name: string; readonly value?: string }[];
  readonly ports?: readonly Port[];
  readonly volumeMounts?: readonly { readonly name: string; readonly mountPath: string }[];
  readonly resources?: { readonly limits?: Readonly<Record<string, string | number>> };
  readonly readinessProbe?: Probe;
  readonly livenessProbe?: Probe;
  readonly securityContext?: {
    readonly privileged?: boolean;
    readonly runAsUser?: number;
    readonly readOnlyRootFilesystem?: boolean;
    readonly capabilities?: { readonly drop: readonly string[] };
  };
}

interface Volume {
  readonly name: string;
  readonly hostPath?: { readonly path: string };
  readonly configMap?: { readonly name: string };
  readonly projected?: { readonly sources: readonly { readonly configMap?: { readonly name: string } }[] };
}

export interface Pod {
  readonly hostNetwork?: boolean;
  readonly securityContext?: { readonly runAsUser?: number; readonly runAsNonRoot?: boolean };
  readonly initContainers?: readonly Container[];
  readonly containers: readonly Container[];
  readonly volumes: readonly Volume[];
}

type Labels = Readonly<Record<string, string>>;

/** An object of Kubernetes, as far as tests read it. */
export interface KubernetesObject {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly parameters?: Readonly<Record<string, string>>;
  readonly data?: Readonly<Record<string, string>>;
  readonly spec?: {
    readonly replicas?: number;
    readonly template?: { readonly metadata: { readonly labels: Labels }; readonly spec: Pod };
    readonly selector?: { readonly matchLabels: Labels };
    readonly podSelector?: { readonly matchLabels: Labels };
    readonly ingress?: readonly { readonly ports: readonly { readonly port: string }[] }[];
    readonly updateStrategy?: { readonly type: string };
  };
}

export interface Rendered {
  readonly text: string;
  readonly objects: readonly KubernetesObject[];
}

export function skipWithoutHelm(test: Mocha.Context): void {
  if (spawnSync("helm", ["version"]).error) skipBecause(test, "helm is not on PATH");
}

/** Runs helm on the chart. Returns its exit code and output. */
export function helm(command: string, ...args: string[]): { readonly status: number | null; readonly output: string } {
  const chartArgs = command === "template" ? ["diskmesh", chart, "--kube-version", "1.37.0"] : [chart];
  const { status, stdout, stderr } = spawnSync("helm", [command, ...chartArgs, "--namespace", "mesh", ...args], {
    encoding: "utf8",
  });
  return { status, output: status === 0 ? stdout : stderr + stdout };
}

/** Returns what `helm install` would create. */
export function rendered(...args: string[]): Rendered {
  const { status, output } = helm("template", ...args);
  if (status !== 0) throw new Error(output);
  const documents = parseAllDocuments(output, { merge: true });
  return { text: output, objects: documents.map((document) => document.toJS()).filter(Boolean) };
}
