// Models and plans: what is there, and the way to more of it.
import { useEffect, useRef, useState } from 'preact/hooks';
import { Problem, query, remove } from '../lib/api';
import { useFetched } from '../lib/fetched';
import { bytes, perSecond, seconds, share, time } from '../lib/format';
import { choose, chosen, go, link } from '../lib/route';
import { useTitle } from '../lib/title';
import type { Model, Page, PlanLine } from '../lib/types';
import { upload, type Upload } from '../lib/upload';
import { Card, Dialog, Loading, ProblemBox, StateBadge } from '../ui/parts';
import { figure, Table } from '../ui/table';

const PAGE_SIZE = 50;
const LOOK_AGAIN_MS = 3000;

function UploadBox(props: { done: () => void }) {
  const [running, setRunning] = useState<{ upload: Upload; name: string; share: number }>();
  const [problem, setProblem] = useState<Problem>();
  const [isOver, setIsOver] = useState(false);
  const input = useRef<HTMLInputElement>(null);
  const start = (file: File | undefined) => {
    if (file === undefined || running !== undefined) return;
    setProblem(undefined);
    const started = upload(file, (part) => setRunning({ upload: started, name: file.name, share: part }));
    setRunning({ upload: started, name: file.name, share: 0 });
    started.done.then(
      (model) => {
        setRunning(undefined);
        props.done();
        go(['models', model.id, 'plan']);
      },
      (error: unknown) => {
        setRunning(undefined);
        setProblem(error instanceof Problem ? error : new Problem(0, 'PAGE', String(error)));
      },
    );
  };
  return (
    <section
      class={`card drop ${isOver ? 'over' : ''}`}
      aria-label="Upload a model"
      onDragOver={(event) => {
        event.preventDefault();
        setIsOver(true);
      }}
      onDragLeave={() => setIsOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setIsOver(false);
        start(event.dataTransfer?.files[0]);
      }}
    >
      {running === undefined ? (
        <>
          <p>
            <strong>Drop an ONNX model here</strong> or{' '}
            <button type="button" class="primary" onClick={() => input.current?.click()}>
              Choose a file
            </button>
          </p>
          <p class="muted small">
            .onnx, or a graph in JSON. Weights are stored, never read: a model without its external data will do.
          </p>
          <input
            ref={input}
            type="file"
            class="visually-hidden"
            tabIndex={-1}
            aria-label="Model file"
            accept=".onnx,.pb,.json"
            onChange={(event) => {
              start(event.currentTarget.files?.[0]);
              event.currentTarget.value = '';
            }}
          />
        </>
      ) : (
        <div class="uploading">
          <span>
            {running.share < 1 ? 'Uploading' : 'Looking into'} <code>{running.name}</code> · {share(running.share)}
          </span>
          <progress max={1} value={running.share} aria-label={`Upload of ${running.name}`} />
          <button type="button" onClick={running.upload.cancel}>
            Cancel
          </button>
        </div>
      )}
      {problem !== undefined && <ProblemBox problem={problem} />}
    </section>
  );
}

/** Pages of a list that grow together: "Show more" asks for the next one. */
function usePages<Item>(path: string, name: string) {
  const [token, setToken] = useState('');
  const [items, setItems] = useState<Item[]>([]);
  const fetched = useFetched<Page & Record<string, Item[]>>(query(path, { page_size: PAGE_SIZE, page_token: token }));
  const { data } = fetched;
  useEffect(() => {
    if (data === undefined) return;
    const page = data[name] ?? [];
    setItems((old) => (token === '' ? page : [...old, ...page]));
  }, [data]);
  return {
    items,
    fetched,
    more: data?.next_page_token ? () => setToken(data.next_page_token ?? '') : undefined,
    reload: () => {
      if (token === '') fetched.reload();
      else setToken('');
    },
  };
}

/** Whether there is anything cannot be said yet. */
function isUnknown(list: { loading: boolean; problem: Problem | undefined }): boolean {
  return list.loading || list.problem !== undefined;
}

function Plans(props: { round: number }) {
  const plans = usePages<PlanLine>('v1/summary', 'plans');
  const [picked, setPicked] = useState<string[]>([]);
  const isOpen = plans.items.some((plan) => plan.state === 'queued' || plan.state === 'running');
  useEffect(() => {
    if (!isOpen) return;
    const timer = setTimeout(plans.reload, LOOK_AGAIN_MS);
    return () => clearTimeout(timer);
  }, [isOpen, plans.items]);
  useEffect(() => {
    if (props.round > 0) plans.reload();
  }, [props.round]);
  const pick = (id: string) =>
    setPicked((old) => (old.includes(id) ? old.filter((one) => one !== id) : [...old, id].slice(-2)));
  return (
    <Card
      title="Plans"
      tools={
        picked.length === 2 ? (
          <a class="button" href={link(['compare', ...picked])}>
            Compare the two
          </a>
        ) : (
          <span class="muted small">Tick two plans to compare them.</span>
        )
      }
    >
      {plans.fetched.problem !== undefined && <ProblemBox problem={plans.fetched.problem} retry={plans.reload} />}
      {plans.items.length === 0 && plans.fetched.loading && <Loading />}
      <Table
        caption="Plans, newest first"
        empty={isUnknown(plans.fetched) ? ' ' : 'No plans yet: upload a model and ask for one.'}
        rows={plans.items}
        rowKey={(plan) => plan.id}
        columns={[
          {
            key: 'pick',
            label: '',
            cell: (plan) =>
              plan.latency_seconds !== null && (
                <input
                  type="checkbox"
                  aria-label={`Compare plan ${plan.id.slice(0, 12)} of ${plan.model_name ?? plan.model.slice(0, 12)}`}
                  checked={picked.includes(plan.id)}
                  onChange={() => pick(plan.id)}
                />
              ),
          },
          {
            key: 'model',
            label: 'Model',
            value: (plan) => plan.model_name,
            cell: (plan) => (
              <a href={link(['plans', plan.id])}>{plan.model_name ?? `model ${plan.model.slice(0, 12)}`}</a>
            ),
          },
          { key: 'state', label: 'State', value: (plan) => plan.state, cell: (plan) => <StateBadge state={plan.state} /> },
          { key: 'objective', label: 'Objective', value: (plan) => plan.objective, cell: (plan) => plan.objective ?? '–' },
          {
            key: 'devices',
            label: 'Devices',
            numeric: true,
            value: (plan) => plan.devices_used,
            cell: (plan) => (plan.devices_used === null ? '–' : `${plan.devices_used} of ${plan.devices}`),
          },
          figure('latency_seconds', 'Latency', seconds),
          figure('throughput_per_second', 'Throughput', perSecond),
          figure('gap', 'Gap', share),
          figure('memory_worst_ratio', 'Fullest device', share),
          {
            key: 'created',
            label: 'Asked for',
            value: (plan) => plan.created_at,
            cell: (plan) => <time dateTime={plan.created_at}>{time(plan.created_at)}</time>,
          },
        ]}
      />
      {plans.more !== undefined && (
        <p>
          <button type="button" onClick={plans.more}>
            Older plans
          </button>
        </p>
      )}
    </Card>
  );
}

function Models(props: { round: number }) {
  const models = usePages<Model>('v1/models', 'models');
  const [gone, setGone] = useState<Model>();
  const [problem, setProblem] = useState<Problem>();
  useEffect(() => {
    if (props.round > 0) models.reload();
  }, [props.round]);
  const drop = (model: Model) => {
    remove(`v1/models/${model.id}`).then(
      () => {
        setGone(undefined);
        models.reload();
      },
      (error: unknown) => {
        setGone(undefined);
        setProblem(error instanceof Problem ? error : new Problem(0, 'PAGE', String(error)));
      },
    );
  };
  return (
    <Card title="Models">
      {problem !== undefined && <ProblemBox problem={problem} />}
      {models.fetched.problem !== undefined && <ProblemBox problem={models.fetched.problem} retry={models.reload} />}
      {models.items.length === 0 && models.fetched.loading && <Loading />}
      <Table
        caption="Stored models"
        empty={isUnknown(models.fetched) ? ' ' : 'No models yet.'}
        rows={models.items}
        rowKey={(model) => model.id}
        columns={[
          {
            key: 'name',
            label: 'Name',
            value: (model) => model.name,
            cell: (model) => <a href={link(['models', model.id])}>{model.name || model.id.slice(0, 12)}</a>,
          },
          figure('bytes', 'Size', bytes),
          {
            key: 'created',
            label: 'Stored',
            value: (model) => model.created_at,
            cell: (model) => <time dateTime={model.created_at}>{time(model.created_at)}</time>,
          },
          {
            key: 'actions',
            label: '',
            cell: (model) => (
              <span class="tools">
                <a href={link(['models', model.id, 'plan'])}>Plan</a>
                <button type="button" class="plain link" onClick={() => setGone(model)}>
                  Delete
                </button>
              </span>
            ),
          },
        ]}
      />
      {models.more !== undefined && (
        <p>
          <button type="button" onClick={models.more}>
            More models
          </button>
        </p>
      )}
      {gone !== undefined && (
        <Dialog title="Delete this model?" onClose={() => setGone(undefined)}>
          <p>
            <strong>{gone.name}</strong>, {bytes(gone.bytes)}. It cannot be planned again without another upload.
          </p>
          <div class="tools">
            <button type="button" class="danger" onClick={() => drop(gone)}>
              Delete
            </button>
            <button type="button" onClick={() => setGone(undefined)}>
              Keep
            </button>
          </div>
        </Dialog>
      )}
    </Card>
  );
}

export function HomePage() {
  const [round, setRound] = useState(0);
  useTitle('Models and plans');
  const tab = chosen('show') === 'models' ? 'models' : 'plans';
  return (
    <>
      <div class="title">
        <h1>Models and plans</h1>
      </div>
      <UploadBox done={() => setRound(round + 1)} />
      <div class="switch lists" role="group" aria-label="Show">
        <button type="button" aria-pressed={tab === 'plans'} onClick={() => choose({ show: undefined })}>
          Plans
        </button>
        <button type="button" aria-pressed={tab === 'models'} onClick={() => choose({ show: 'models' })}>
          Models
        </button>
      </div>
      {tab === 'plans' ? <Plans round={round} /> : <Models round={round} />}
    </>
  );
}
