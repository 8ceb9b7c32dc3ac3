import { NotImplementedError } from "@diskmesh/domain";
import type { Handlers, PartialHandlers, ServiceDefinition } from "@diskmesh/rpc";

/**
 * Completes the handlers of a fake service. Fields left out of an answer get their defaults, and a method without a
 * handler is refused. A new field or method of the service thus does not break fakes that do not use it.
 */
export function fakeHandlers<Definition extends ServiceDefinition>(
  definition: Definition,
  handlers: PartialHandlers<Definition>,
): Handlers<Definition> {
  const methods = Object.entries(definition.methods).map(([key, { name, responseStream, responseType }]) => {
    const handler = (handlers as Record<string, ((...call: unknown[]) => unknown) | undefined>)[key];
    if (handler === undefined)
      return [
        key,
        () => {
          throw new NotImplementedError(`this fake has no ${name}`);
        },
      ];
    if (!responseStream) return [key, async (...call: unknown[]) => responseType.fromPartial(await handler(...call))];
    return [
      key,
      async function* (...call: unknown[]) {
        for await (const response of handler(...call) as AsyncIterable<unknown>)
          yield responseType.fromPartial(response);
      },
    ];
  });
  return Object.fromEntries(methods) as Handlers<Definition>;
}
