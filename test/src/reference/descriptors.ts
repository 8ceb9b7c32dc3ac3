import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { repositoryFolder } from "../repository-folder.js";

const MAX_DESCRIPTOR_BYTES = 64 * 1024 ** 2;

interface Named {
  readonly name: string;
}
interface Field extends Named {
  readonly type: string;
  readonly typeName?: string;
  readonly label?: string;
}
export interface EnumType extends Named {
  readonly value: readonly Named[];
}
export interface Message extends Named {
  readonly field?: readonly Field[];
  readonly nestedType?: readonly Message[];
  readonly enumType?: readonly EnumType[];
  readonly options?: { readonly mapEntry?: boolean };
}
interface Method extends Named {
  readonly inputType: string;
  readonly outputType: string;
  readonly clientStreaming?: boolean;
  readonly serverStreaming?: boolean;
}
export interface File extends Named {
  readonly package: string;
  readonly messageType?: readonly Message[];
  readonly enumType?: readonly EnumType[];
  readonly service?: readonly (Named & { readonly method?: readonly Method[] })[];
  readonly sourceCodeInfo: {
    readonly location: readonly { readonly path?: readonly number[]; readonly leadingComments?: string }[];
  };
}

/** Returns all files of proto/, as `buf build` describes them. */
export function descriptors(): readonly File[] {
  const buf = join(repositoryFolder, "node_modules/@bufbuild/buf/bin/buf");
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [buf, "build", join(repositoryFolder, "proto"), "-o", "-#format=json"],
    { encoding: "utf8", maxBuffer: MAX_DESCRIPTOR_BYTES },
  );
  if (status !== 0) throw new Error(`buf build failed: ${stderr}`);
  return (JSON.parse(stdout) as { file: File[] }).file;
}
