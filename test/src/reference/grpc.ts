import { descriptors, type EnumType, type File, type Message } from "./descriptors.js";
import { pageHead } from "./markdown.js";
import { offeredServices, rolesShown } from "./roles.js";

/** Field numbers of descriptor.proto, from which the paths of comments consist. */
const PATH = { message: 4, enum: 5, service: 6, field: 2, nested: 3, nestedEnum: 4, value: 2, method: 2 };

/** Returns docs/reference/grpc.md and a page for each package, by file name. */
export function grpcPages(): ReadonlyMap<string, string> {
  const files = descriptors().filter((file) => file.package.startsWith("diskmesh."));
  const packages = [...new Set(files.map((file) => file.package))].sort();
  const pages = new Map(
    packages.map((name) => [
      `grpc/${name}.md`,
      packagePage(
        name,
        files.filter((file) => file.package === name),
      ),
    ]),
  );
  return new Map([["grpc.md", index(packages, files)], ...pages]);
}

function index(packages: readonly string[], files: readonly File[]): string {
  const head = pageHead(
    "The gRPC API",
    "Every process serves the same by reflection. [Write a client](../guides/clients.md) says how to connect, follow the leader and repeat.",
    "`diskmesh.internal.v1` is what services of one mesh say to each other: any release may change it.",
  );
  const sections = packages.map((name) => {
    const services = files.filter((file) => file.package === name).flatMap(({ service = [] }) => service);
    const lines = services.map((each) => {
      const methods = (each.method ?? []).map((method) => method.name).join(", ");
      return `- [${each.name}](grpc/${name}.md#${each.name.toLowerCase()}): ${methods}`;
    });
    return `## ${name}\n\n${lines.join("\n") || `Messages alone: see [its page](grpc/${name}.md).`}`;
  });
  return `${[head, ...sections].join("\n\n")}\n`;
}

function packagePage(name: string, files: readonly File[]): string {
  const parts = [pageHead(name, "[All packages](../grpc.md)")];
  for (const file of files)
    for (const [at, { name: service, method: methods = [] }] of (file.service ?? []).entries()) {
      const comment = commentAt(file, [PATH.service, at]);
      const lines = methods.map((method, of) => {
        const streams = [
          method.clientStreaming && "the client streams",
          method.serverStreaming && "the server streams",
        ];
        const notes = [...streams.filter(Boolean), rolesText(`${name}.${service}`, method.name)].join("; ");
        const does = commentAt(file, [PATH.service, at, PATH.method, of]);
        return `- **${method.name}**(${reference(name, method.inputType)}): ${reference(name, method.outputType)} (${notes}). ${does}`;
      });
      parts.push(`## ${service}`, comment, lines.join("\n"));
    }
  for (const file of files) {
    for (const [at, message] of (file.messageType ?? []).entries())
      parts.push(...messageParts(name, file, message, message.name, [PATH.message, at]));
    for (const [at, each] of (file.enumType ?? []).entries())
      parts.push(...enumParts(file, each, each.name, [PATH.enum, at]));
  }
  return `${parts.filter((part) => part !== "").join("\n\n")}\n`;
}

function messageParts(scope: string, file: File, message: Message, name: string, path: readonly number[]): string[] {
  if (message.options?.mapEntry) return [];
  const fields = (message.field ?? []).map((field, at) => {
    const isMap = message.nestedType?.some(
      (nested) => nested.options?.mapEntry && field.typeName?.endsWith(`.${name}.${nested.name}`),
    );
    const repeated = field.label === "LABEL_REPEATED" ? "repeated " : "";
    const type = field.typeName ? reference(scope, field.typeName) : field.type.replace("TYPE_", "").toLowerCase();
    return `- \`${field.name}\` (${isMap ? "map" : repeated + type}): ${commentAt(file, [...path, PATH.field, at])}`;
  });
  const nested = (message.nestedType ?? []).flatMap((each, at) =>
    messageParts(scope, file, each, `${name}.${each.name}`, [...path, PATH.nested, at]),
  );
  const enums = (message.enumType ?? []).flatMap((each, at) =>
    enumParts(file, each, `${name}.${each.name}`, [...path, PATH.nestedEnum, at]),
  );
  return [`### ${name}`, commentAt(file, path), fields.join("\n"), ...nested, ...enums];
}

function enumParts(file: File, { value }: EnumType, name: string, path: readonly number[]): string[] {
  const values = value.map((each, at) => `- \`${each.name}\`: ${commentAt(file, [...path, PATH.value, at])}`);
  return [`### ${name}`, commentAt(file, path), values.join("\n")];
}

/** Formats a type by its full name, with a link if a page describes it. */
function reference(scope: string, fullName: string): string {
  const [, home = "", type = ""] = /^\.((?:[a-z]\w*\.)+)(\w.*)$/.exec(fullName) ?? [];
  const file = home.slice(0, -1);
  if (!file.startsWith("diskmesh.")) return `\`${file}.${type}\``;
  const anchor = type.toLowerCase().replaceAll(".", "");
  return `[${type}](${file === scope ? "" : `${file}.md`}#${anchor})`;
}

function rolesText(service: string, method: string): string {
  const offers = offeredServices().get(service) ?? [];
  return offers.map(({ process, roles }) => `${process}: ${rolesShown(roles.get(method) ?? [])}`).join("; ");
}

function commentAt({ sourceCodeInfo }: File, path: readonly number[]): string {
  const wanted = path.join(".");
  const found = sourceCodeInfo.location.find((location) => (location.path ?? []).join(".") === wanted);
  return (found?.leadingComments ?? "").replace(/\s+/g, " ").trim();
}
