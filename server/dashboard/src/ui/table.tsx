// Tables: of rows that are here, and of rows that the daemon has and gives a page at a time.
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { query } from '../lib/api';
import { useFetched } from '../lib/fetched';
import { count } from '../lib/format';
import { choose, chosen } from '../lib/route';
import type { Rows } from '../lib/types';
import { Exact, Loading, ProblemBox } from './parts';

export interface Column<Row> {
  key: string; // also what it is sorted by
  label: string;
  numeric?: boolean;
  sortable?: boolean;
  value?: (row: Row) => number | string | null | undefined; // of rows that are sorted here
  cell: (row: Row) => ComponentChildren;
}

/** A column of figures: of the member of that name, or of what `pick` gives. */
export function figure<Row extends object>(
  name: string,
  label: string,
  as: (value: number) => string,
  pick: (row: Row) => number | null | undefined = (row) => (row as Record<string, number | null>)[name],
): Column<Row> {
  return { key: name, label, numeric: true, value: pick, cell: (row) => <Exact name={name} value={pick(row)} as={as} /> };
}

/** A column that the daemon sorts by. */
export function sortable<Row>(column: Column<Row>): Column<Row> {
  return { ...column, sortable: true };
}

interface Order {
  key: string;
  descending: boolean;
}

function HeadCell<Row>(props: { column: Column<Row>; order: Order; sort: (order: Order) => void }) {
  const { column, order } = props;
  const isSorted = order.key === column.key;
  const direction = !isSorted ? undefined : order.descending ? 'descending' : 'ascending';
  return (
    <th scope="col" class={column.numeric ? 'numeric' : undefined} aria-sort={direction}>
      {column.sortable ? (
        <button
          type="button"
          class="plain"
          onClick={() => props.sort({ key: column.key, descending: isSorted ? !order.descending : column.numeric === true })}
        >
          {column.label}
          <span aria-hidden="true">{isSorted ? (order.descending ? ' ↓' : ' ↑') : ''}</span>
        </button>
      ) : (
        column.label
      )}
    </th>
  );
}

function Body<Row>(props: {
  columns: Column<Row>[];
  rows: Row[];
  rowKey: (row: Row) => string | number;
  isChosen?: (row: Row) => boolean;
}) {
  return (
    <tbody>
      {props.rows.map((row) => (
        <tr key={props.rowKey(row)} class={props.isChosen?.(row) ? 'chosen' : undefined}>
          {props.columns.map((column) => (
            <td key={column.key} class={column.numeric ? 'numeric' : undefined}>
              {column.cell(row)}
            </td>
          ))}
        </tr>
      ))}
    </tbody>
  );
}

function compare(a: number | string | null | undefined, b: number | string | null | undefined): number {
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  return String(a ?? '').localeCompare(String(b ?? ''), undefined, { numeric: true });
}

const MOST_SHOWN = 100;

/** Rows that are here. */
export function Table<Row>(props: {
  caption: string;
  columns: Column<Row>[];
  rows: Row[];
  rowKey: (row: Row) => string | number;
  isChosen?: (row: Row) => boolean;
  first?: Order;
  empty?: string;
}) {
  const [order, setOrder] = useState<Order>(props.first ?? { key: '', descending: false });
  const [shown, setShown] = useState(MOST_SHOWN);
  const column = props.columns.find((one) => one.key === order.key);
  const rows = [...props.rows];
  if (column?.value !== undefined) {
    const value = column.value;
    rows.sort((a, b) => (order.descending ? -1 : 1) * compare(value(a), value(b)));
  }
  if (rows.length === 0) return <p class="muted">{props.empty ?? 'Nothing to show.'}</p>;
  return (
    <>
      <div class="scroll" tabIndex={0} role="region" aria-label={props.caption}>
        <table>
          <caption class="visually-hidden">{props.caption}</caption>
          <thead>
            <tr>
              {props.columns.map((one) => (
                <HeadCell
                  key={one.key}
                  column={{ ...one, sortable: one.value !== undefined }}
                  order={order}
                  sort={setOrder}
                />
              ))}
            </tr>
          </thead>
          <Body columns={props.columns} rows={rows.slice(0, shown)} rowKey={props.rowKey} isChosen={props.isChosen} />
        </table>
      </div>
      {rows.length > shown && (
        <p>
          <button type="button" onClick={() => setShown(shown + MOST_SHOWN)}>
            Show {Math.min(MOST_SHOWN, rows.length - shown)} more of {count(rows.length)}
          </button>
        </p>
      )}
    </>
  );
}

const PAGE_SIZE = 100;

/**
 * Rows that the daemon has. What they are sorted by stands in the page's address ("sort", "order"); `parameters` are the
 * filters that the view has chosen.
 */
export function PagedTable<Row extends { index: number }>(props: {
  caption: string;
  path: string;
  parameters: Record<string, string | number | undefined>;
  columns: Column<Row>[];
  first?: Order;
  isChosen?: (row: Row) => boolean;
  empty?: string;
  found?: (total: number) => void;
}) {
  const order: Order =
    chosen('sort') !== ''
      ? { key: chosen('sort'), descending: chosen('order') === 'desc' }
      : (props.first ?? { key: 'index', descending: false });
  const base = query(props.path, {
    ...props.parameters,
    sort: order.key === 'index' ? undefined : order.key,
    order: order.descending ? 'desc' : undefined,
    page_size: PAGE_SIZE,
  });
  const [pages, setPages] = useState<{ base: string; tokens: string[] }>({ base, tokens: [] });
  const tokens = pages.base === base ? pages.tokens : [];
  const fetched = useFetched<Rows<Row>>(
    tokens.length === 0 ? base : `${base}&page_token=${encodeURIComponent(tokens[tokens.length - 1] ?? '')}`,
  );
  const { data, problem, loading } = fetched;
  useEffect(() => {
    if (data !== undefined) props.found?.(data.total);
  }, [data]);
  if (problem !== undefined) return <ProblemBox problem={problem} retry={fetched.reload} />;
  if (data === undefined) return <Loading />;
  if (data.total === 0) return <p class="muted">{props.empty ?? 'Nothing matches.'}</p>;
  const first = tokens.length * PAGE_SIZE;
  return (
    <div aria-busy={loading}>
      <div class="scroll" tabIndex={0} role="region" aria-label={props.caption}>
        <table>
          <caption class="visually-hidden">{props.caption}</caption>
          <thead>
            <tr>
              {props.columns.map((one) => (
                <HeadCell
                  key={one.key}
                  column={one}
                  order={order}
                  sort={(next) => choose({ sort: next.key, order: next.descending ? 'desc' : 'asc' })}
                />
              ))}
            </tr>
          </thead>
          <Body columns={props.columns} rows={data.items} rowKey={(row) => row.index} isChosen={props.isChosen} />
        </table>
      </div>
      <nav class="pager" aria-label={`Pages of ${props.caption}`}>
        <button type="button" disabled={first === 0} onClick={() => setPages({ base, tokens: tokens.slice(0, -1) })}>
          Previous
        </button>
        <span role="status">
          {count(first + 1)}–{count(first + data.items.length)} of {count(data.total)}
        </span>
        <button
          type="button"
          disabled={!data.next_page_token}
          onClick={() => setPages({ base, tokens: [...tokens, data.next_page_token ?? ''] })}
        >
          Next
        </button>
      </nav>
    </div>
  );
}
