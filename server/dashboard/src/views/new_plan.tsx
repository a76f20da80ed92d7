// What is to be planned: the devices, the goal, and the constraints.
import { useState } from 'preact/hooks';
import { post, Problem } from '../lib/api';
import { useFetched } from '../lib/fetched';
import { bytes, flops } from '../lib/format';
import { go, link } from '../lib/route';
import { useTitle } from '../lib/title';
import type { DeviceKind, Inspection, Objective, PlanState } from '../lib/types';
import { Card, ProblemBox, Shown } from '../ui/parts';

type Way = 'catalog' | 'sweep' | 'json';

interface Form {
  way: Way;
  device: string;
  runtime: string;
  count: string;
  counts: string;
  types: string[];
  choose: 'smallest' | 'best';
  cluster: string;
  objective: Objective;
  strategy: string;
  placement: string;
  replicas: string;
  batch: string;
  microBatches: string;
  dims: Record<string, string>;
  sizes: string;
  values: string;
  shapes: string;
  operators: string;
  state: string;
  workload: string;
  limit: string;
  tolerance: string;
  whatIf: boolean;
  stages: string;
  reserved: string;
  constraints: string;
}

const EMPTY: Form = {
  way: 'catalog',
  device: '',
  runtime: 'onnxruntime',
  count: '8',
  counts: '1, 2, 4, 8',
  types: [],
  choose: 'smallest',
  cluster: '{\n  "device": "a100-sxm4-80gb",\n  "count": 8,\n  "mesh": [\n    {"name": "node", "size": 2, "bandwidth": 25e9, "latency": 5e-6},\n    {"name": "gpu", "size": 4, "bandwidth": 300e9, "latency": 2e-6}\n  ]\n}',
  objective: 'throughput',
  strategy: 'auto',
  placement: 'contiguous',
  replicas: '',
  batch: '',
  microBatches: '1',
  dims: {},
  sizes: '',
  values: '',
  shapes: '',
  operators: '',
  state: '',
  workload: '',
  limit: '',
  tolerance: '',
  whatIf: false,
  stages: '',
  reserved: '',
  constraints: '',
};

const OBJECTIVES: Record<Objective, string> = {
  throughput: 'Most requests per second.',
  latency: 'The fastest single request.',
  devices: 'The fewest devices that the model fits on.',
  cost: 'The cheapest devices that keep the limits of a workload.',
};

const STRATEGIES: Record<string, string> = {
  auto: 'Tries every strategy, including multi-device stages.',
  grouping: 'Groups whole operators on devices.',
  pipeline: 'Whole operators, in stages of one device.',
  tensor: 'One stage; its devices share every operator.',
  routes: 'Devices hold overlapping parts of the model; requests flow through any of them.',
};

const RUNTIMES = ['onnxruntime', 'tensorrt', 'vllm', 'generic'];

const PLACEMENTS: Record<string, string> = {
  contiguous: '',
  any: 'A device may hold any nodes, in several stages, if that gives more throughput.',
};

/** What people know of a model beside its file, as the daemon takes it: JSON, each in a field of its own. */
const GIVEN = {
  sizes: { label: 'Sizes of other dimensions', hint: '{"pixels:2": 224, "past + seq": 128}' },
  values: { label: 'Values of inputs: what follows from them is known, too', hint: '{"use_cache_branch": true}' },
  shapes: { label: 'Shapes of tensors', hint: '{"tokens": [2, "seq", 64]}' },
  operators: {
    label: 'Operators of your own',
    hint: '[{"domain": "com.example", "name": "FusedGate", "rule": "[b.., k] [k, n] -> [b.., n]; k sum"}]',
  },
  workload: { label: 'Workload', hint: '{"llm": {"input": 2048, "output": 256}, "limits": {"tpot_seconds": 0.05}, "pools": "best"}' },
  state: { label: 'States: outputs that the next step takes as inputs', hint: '[["past_key_values.*", "present.*"]]' },
} satisfies Partial<Record<keyof Form, { label: string; hint: string }>>;
const GIVEN_NAMES = Object.keys(GIVEN) as (keyof typeof GIVEN)[];

function parsed(text: string, what: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Problem(0, 'NOT_JSON', `${what} is not JSON: ${(error as Error).message}.`);
  }
}

/** The body of POST /v1/plans. What the form does not say is left to the daemon, which checks it all. */
function requestOf(model: string, form: Form): Record<string, unknown> {
  const options: Record<string, unknown> = {};
  const constraints: Record<string, unknown> =
    form.constraints.trim() === '' ? {} : (parsed(form.constraints, 'Constraints') as Record<string, unknown>);
  const given: Record<string, unknown> = Object.fromEntries(
    GIVEN_NAMES.filter((name) => form[name].trim() !== '').map((name) => [name, parsed(form[name], `'${GIVEN[name].label}'`)]),
  );
  const { sizes, ...others } = given;
  const numbers = Object.entries(form.dims).filter(([, value]) => value !== '');
  if (form.strategy !== 'auto') options['strategy'] = form.strategy;
  if (form.placement !== 'contiguous') options['placement'] = form.placement;
  if (form.replicas !== '') options['replicas'] = Number(form.replicas);
  if (form.batch !== '') options['batch'] = Number(form.batch);
  if (form.microBatches !== '1') options['micro_batches'] = form.microBatches === 'auto' ? 'auto' : Number(form.microBatches);
  if (sizes !== undefined || numbers.length > 0)
    options['dims'] = { ...(sizes as object), ...Object.fromEntries(numbers.map(([name, value]) => [name, Number(value)])) };
  Object.assign(options, others);
  if (form.limit !== '') options['time_limit_seconds'] = Number(form.limit);
  if (form.tolerance !== '') options['tolerance'] = Number((Number(form.tolerance) / 100).toPrecision(12));
  if (form.whatIf) options['what_if'] = true;
  if (form.stages !== '') constraints['max_stages'] = Number(form.stages);
  if (form.reserved !== '') constraints['reserved_bytes'] = Number(form.reserved) * 1e9;
  if (Object.keys(constraints).length > 0) options['constraints'] = constraints;
  const runtime = form.runtime === EMPTY.runtime ? {} : { runtime: form.runtime };
  const where =
    form.way === 'catalog'
      ? { cluster: { device: form.device, count: Number(form.count), ...runtime } }
      : form.way === 'json'
        ? { cluster: parsed(form.cluster, 'The cluster') }
        : {
            sweep: {
              devices: form.counts.split(/[\s,]+/).filter((one) => one !== '').map(Number),
              types: form.types.length > 0 ? form.types : [form.device],
              choose: form.choose,
              ...runtime,
            },
          };
  return { model, ...where, objective: form.objective, ...(Object.keys(options).length > 0 ? { options } : {}) };
}

interface Part {
  form: Form;
  set: (changes: Partial<Form>) => void;
}

function Field(props: Part & { name: keyof Form; label: string; hint?: string; min?: number; step?: string }) {
  return (
    <label>
      {props.label}
      <input
        type="number"
        min={props.min ?? 1}
        step={props.step ?? '1'}
        value={props.form[props.name] as string}
        placeholder={props.hint}
        onInput={(event) => props.set({ [props.name]: event.currentTarget.value })}
      />
    </label>
  );
}

function Choice(props: Part & { name: keyof Form; label: string; of: string[] }) {
  return (
    <label>
      {props.label}
      <select
        value={props.form[props.name] as string}
        onChange={(event) => props.set({ [props.name]: event.currentTarget.value })}
      >
        {props.of.map((one) => (
          <option key={one}>{one}</option>
        ))}
      </select>
    </label>
  );
}

/** What of a device's figures was measured: "products", "attention", .. */
function measuredOf(kind: DeviceKind): string[] {
  return Object.keys(kind.measured ?? {}).filter((part) => kind.measured?.[part]);
}

// A device of the catalog in a sentence or two.
function About(props: { kind: DeviceKind }) {
  const { kind } = props;
  const price = kind.price_per_hour;
  const measured = measuredOf(kind);
  const peaks = ['float32', 'float16', 'bfloat16', 'float8e4m3fn', 'int8', 'float4e2m1'].filter((type) => type in kind.flops);
  return (
    <p class="muted small">
      {kind.title ?? kind.name}
      {kind.kind !== undefined && ` (${kind.kind})`}: {bytes(kind.memory_bytes)} of memory at {bytes(kind.memory_bandwidth)}/s
      {peaks.map((type) => `, ${flops(kind.flops[type])}/s in ${type}`).join('')}.{' '}
      {price !== undefined &&
        `${price.usd.toFixed(2)} USD an hour (${[price.provider, price.date ?? 'no date'].filter(Boolean).join('; ')}). `}
      Time of kernels: {measured.length > 0 ? `measured (${measured.join(', ')})` : `not measured, defaults of its kind`}.{' '}
      {kind.note}
    </p>
  );
}

function Devices(props: Part & { kinds: DeviceKind[] }) {
  const { form, set, kinds } = props;
  const kind = kinds.find((one) => one.name === form.device);
  return (
    <Card title="Devices">
      <div class="switch lists" role="group" aria-label="How the devices are given">
        {(
          [
            ['catalog', 'Catalog'],
            ['sweep', 'Compare sizes'],
            ['json', 'Custom (JSON)'],
          ] as [Way, string][]
        ).map(([way, label]) => (
          <button type="button" key={way} aria-pressed={form.way === way} onClick={() => set({ way })}>
            {label}
          </button>
        ))}
      </div>
      {form.way === 'json' ? (
        <label>
          Cluster, in JSON: devices, their runtime, groups of different ones, and the levels of links between them
          <textarea
            rows={9}
            spellcheck={false}
            class="mono"
            value={form.cluster}
            onInput={(event) => set({ cluster: event.currentTarget.value })}
          />
        </label>
      ) : (
        <div class="fields">
          <label>
            Device
            <select
              value={form.device}
              onChange={(event) => set({ device: event.currentTarget.value, types: [] })}
            >
              {['Measured', 'Not measured'].map((label, at) => (
                <optgroup key={label} label={label}>
                  {kinds
                    .filter((one) => (measuredOf(one).length === 0) === (at === 1))
                    .map((one) => (
                      <option key={one.name}>{one.name}</option>
                    ))}
                </optgroup>
              ))}
            </select>
          </label>
          <Choice {...props} name="runtime" label="Runtime" of={RUNTIMES} />
          {form.way === 'catalog' ? (
            <Field {...props} name="count" label="Number of devices" />
          ) : (
            <>
              <label>
                Numbers of devices
                <input value={form.counts} onInput={(event) => set({ counts: event.currentTarget.value })} />
              </label>
              <label>
                Also compare
                <select
                  value=""
                  onChange={(event) => {
                    const name = event.currentTarget.value;
                    const types = form.types.length > 0 ? form.types : [form.device];
                    set({ types: types.includes(name) ? types : [...types, name] });
                    event.currentTarget.value = '';
                  }}
                >
                  <option value="">{form.types.length > 1 ? form.types.slice(1).join(', ') : 'none'}</option>
                  {kinds
                    .filter((one) => one.name !== form.device && !form.types.includes(one.name))
                    .map((one) => (
                      <option key={one.name}>{one.name}</option>
                    ))}
                </select>
              </label>
              <label>
                Choose
                <select
                  value={form.choose}
                  onChange={(event) => set({ choose: event.currentTarget.value as Form['choose'] })}
                >
                  <option value="smallest">the fewest devices that fit</option>
                  <option value="best">the best by the objective</option>
                </select>
              </label>
            </>
          )}
        </div>
      )}
      {form.way !== 'json' && kind !== undefined && <About kind={kind} />}
    </Card>
  );
}

function Wishes(props: Part & { symbols: string[]; isCosts: boolean }) {
  const { form, set } = props;
  return (
    <Card title="Goal">
      <div class="fields">
        <Choice {...props} name="objective" label="Objective" of={Object.keys(OBJECTIVES)} />
        <Choice {...props} name="strategy" label="Strategy" of={Object.keys(STRATEGIES)} />
        {props.isCosts && <Choice {...props} name="placement" label="Placement" of={Object.keys(PLACEMENTS)} />}
        <Field {...props} name="batch" label="Batch" hint="as the model has it" />
        <Choice {...props} name="microBatches" label="Micro-batches" of={['1', '2', '4', '8', '16', '32', 'auto']} />
        <Field {...props} name="replicas" label="Replicas, at most" hint="copies of all" />
        <Field {...props} name="tolerance" label="Tolerance (%)" hint="2" min={0} step="any" />
        <Field {...props} name="limit" label="Seconds to search, at most" hint="no limit" min={0} step="any" />
        {props.symbols.map((symbol) => (
          <label key={symbol}>
            Dimension <code>{symbol}</code>
            <input
              type="number"
              min={0}
              placeholder="assumed"
              value={form.dims[symbol] ?? ''}
              onInput={(event) => set({ dims: { ...form.dims, [symbol]: event.currentTarget.value } })}
            />
          </label>
        ))}
      </div>
      {!props.isCosts && (
        <details>
          <summary>Workload, sizes, values, shapes, operators and states that the model does not say, in JSON</summary>
          {GIVEN_NAMES.map((name) => (
            <label key={name}>
              {GIVEN[name].label}
              <textarea
                rows={2}
                spellcheck={false}
                class="mono"
                placeholder={GIVEN[name].hint}
                value={form[name]}
                onInput={(event) => set({ [name]: event.currentTarget.value })}
              />
            </label>
          ))}
        </details>
      )}
      <p class="muted small">
        {OBJECTIVES[form.objective]} {STRATEGIES[form.strategy]} {PLACEMENTS[form.placement]} Plans within the tolerance of the
        best count as equal: fewer devices decide, then more free memory, then fewer messages.
      </p>
      <label class="check">
        <input
          type="checkbox"
          checked={form.whatIf}
          onChange={(event) => set({ whatIf: event.currentTarget.checked })}
        />{' '}
        Run what-if analysis (one extra search each)
      </label>
    </Card>
  );
}

function Constraints(props: Part) {
  const { form, set } = props;
  return (
    <Card title="Constraints">
      <div class="fields">
        <Field {...props} name="stages" label="Stages, at most" hint="no limit" />
        <Field {...props} name="reserved" label="Memory to reserve per device (GB)" hint="0" min={0} step="any" />
      </div>
      <details>
        <summary>Pins, groups, shardings and key-value caches, in JSON</summary>
        <label>
          Constraints, as <code>api/schema/constraints.schema.json</code> describes them
          <textarea
            rows={6}
            spellcheck={false}
            class="mono"
            placeholder={'{"pins": [{"nodes": "embed*", "stage": 0}], "forbid": [{"nodes": "lm_head"}]}'}
            value={form.constraints}
            onInput={(event) => set({ constraints: event.currentTarget.value })}
          />
        </label>
      </details>
    </Card>
  );
}

function PlanForm(props: { model: Inspection; kinds: DeviceKind[] }) {
  const [form, setForm] = useState<Form>({ ...EMPTY, device: props.kinds[0]?.name ?? '' });
  const [problem, setProblem] = useState<Problem>();
  const [sending, setSending] = useState(false);
  const set = (changes: Partial<Form>) => setForm((old) => ({ ...old, ...changes }));
  const submit = async (event: Event) => {
    event.preventDefault();
    setSending(true);
    setProblem(undefined);
    try {
      const plan = await post<PlanState>('v1/plans', requestOf(props.model.id, form));
      go(['plans', plan.id]);
    } catch (error) {
      setProblem(error instanceof Problem ? error : new Problem(0, 'PAGE', String(error)));
      setSending(false);
    }
  };
  return (
    <form onSubmit={(event) => void submit(event)}>
      <Devices form={form} set={set} kinds={props.kinds} />
      <Wishes form={form} set={set} symbols={props.model.symbols ?? []} isCosts={props.model.format === 'costs'} />
      <Constraints form={form} set={set} />
      {problem !== undefined && <ProblemBox problem={problem} />}
      <button type="submit" class="primary" disabled={sending}>
        {sending ? 'Asking …' : 'Plan'}
      </button>
    </form>
  );
}

export function NewPlanPage(props: { model: string }) {
  const model = useFetched<Inspection>(`v1/models/${props.model}`);
  const devices = useFetched<{ devices: DeviceKind[] }>('v1/devices');
  useTitle(`Plan ${model.data?.name || 'a model'}`);
  return (
    <Shown fetched={model} what="the model">
      {(about) => (
        <>
          <div class="title">
            <h1>
              Plan <a href={link(['models', about.id])}>{about.name || about.id.slice(0, 12)}</a>
            </h1>
          </div>
          <Shown fetched={devices} what="the device catalog">
            {(catalog) => <PlanForm model={about} kinds={catalog.devices} />}
          </Shown>
        </>
      )}
    </Shown>
  );
}
